// Receive calls of Waterclock so that each run takes effect once. Go's standard library alone.
//
//	go run receiver.go 8099 whsec_...
//
// The check is receive; what stands around it is a server to try it with. The standard library brings no database: a
// map under a lock stands for yours. There, key, fence, effect and answer must be one transaction (see
// ../python/receiver.py).
package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

const toleranceS = 300

type call struct {
	fence  int64
	answer string // "": not done
}

type receiver struct {
	secret   []byte
	lock     sync.Mutex
	calls    map[string]*call // your table, by key
	invoices []string
}

func (r *receiver) receive(headers http.Header, body []byte, nowS int64) (int, string) {
	if !r.isSigned(headers, body, nowS) {
		return http.StatusUnauthorized, "wrong signature"
	}
	key := headers.Get("webhook-id") // the run id, in every attempt
	fence, err := strconv.ParseInt(headers.Get("Waterclock-Fence"), 10, 64)
	if err != nil {
		return http.StatusBadRequest, "a header is missing or no number"
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	seen := r.calls[key]
	if seen == nil {
		seen = &call{}
		r.calls[key] = seen
	}
	if seen.answer != "" {
		return http.StatusOK, seen.answer // done before: the same answer, and no second effect
	}
	if fence < seen.fence {
		return http.StatusConflict, "a newer attempt of this run was here"
	}
	seen.fence = fence // stays also if the effect fails: an older attempt must not come after this one
	answer, err := r.bookInvoice(body)
	if err != nil {
		return http.StatusUnprocessableEntity, "not booked: " + err.Error()
	}
	seen.answer = answer
	return http.StatusOK, answer
}

// isSigned checks Standard Webhooks 1.0: "v1," and base64 of HMAC-SHA256; two of them while a secret is replaced.
func (r *receiver) isSigned(headers http.Header, body []byte, nowS int64) bool {
	sentAt, err := strconv.ParseInt(headers.Get("webhook-timestamp"), 10, 64)
	if err != nil || sentAt < nowS-toleranceS || sentAt > nowS+toleranceS {
		return false
	}
	mac := hmac.New(sha256.New, r.secret)
	fmt.Fprintf(mac, "%s.%d.", headers.Get("webhook-id"), sentAt)
	mac.Write(body)
	right := []byte("v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	found := false
	for _, one := range strings.Split(headers.Get("webhook-signature"), " ") {
		found = hmac.Equal(right, []byte(one)) || found
	}
	return found
}

// bookInvoice is the effect, in the transaction of the check. Yours goes here.
func (r *receiver) bookInvoice(body []byte) (string, error) {
	var order struct {
		Customer string `json:"customer"`
	}
	if err := json.Unmarshal(body, &order); err != nil || order.Customer == "" {
		return "", errors.New("no customer")
	}
	r.invoices = append(r.invoices, order.Customer)
	return fmt.Sprintf(`{"invoice": %d}`, len(r.invoices)), nil
}

func main() {
	secret, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(os.Args[2], "whsec_"))
	if err != nil {
		log.Fatal("the secret is whsec_ and base64")
	}
	r := &receiver{secret: secret, calls: map[string]*call{}}
	listener, err := net.Listen("tcp", "127.0.0.1:"+os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("http://%s/\n", listener.Addr())
	log.Fatal(http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, request.Body, 1<<20))
		if err != nil {
			http.Error(w, "the body cannot be read", http.StatusBadRequest)
			return
		}
		status, answer := r.receive(request.Header, body, time.Now().Unix())
		w.WriteHeader(status)
		io.WriteString(w, answer)
	})))
}

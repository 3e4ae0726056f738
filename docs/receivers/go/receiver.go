// A receiver in which an effect happens once: go run receiver.go <port>; GET / counts effects.
//
// The check is take. Here the inbox lives in memory, to need nothing but Go; yours is a table in the database of the
// effect: each stretch under the lock is one transaction on it. Verify the signature before (docs/executors.md).
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"sync"
)

type entry struct {
	fence int64
	done  bool
}

type receiver struct {
	lock    sync.Mutex
	inbox   map[string]*entry // CREATE TABLE inbox (key PRIMARY KEY, fence, done)
	effects []string
}

// take answers 200: it is done, now or before; 409: a newer attempt is at it; 422: it cannot be done.
func (r *receiver) take(key string, fence int64, body []byte) int {
	r.lock.Lock() // 1. admit: from now on every older attempt is refused
	seen, known := r.inbox[key]
	if !known {
		seen = &entry{fence: -1}
		r.inbox[key] = seen
	}
	if seen.done || fence < seen.fence {
		defer r.lock.Unlock()
		return map[bool]int{true: http.StatusOK, false: http.StatusConflict}[seen.done]
	}
	seen.fence = fence
	r.lock.Unlock()
	if !json.Valid(body) { // work that takes long, or fails, belongs here, between the two
		return http.StatusUnprocessableEntity
	}
	r.lock.Lock() // 2. effect and key in one transaction, if nobody newer has come meanwhile
	defer r.lock.Unlock()
	if seen.done || seen.fence != fence {
		return http.StatusConflict
	}
	seen.done = true
	r.effects = append(r.effects, string(body)) // your effect
	return http.StatusOK
}

func (r *receiver) ServeHTTP(out http.ResponseWriter, call *http.Request) {
	if call.Method == http.MethodGet {
		r.lock.Lock()
		defer r.lock.Unlock()
		fmt.Fprint(out, len(r.effects))
		return
	}
	key := call.Header.Get("Idempotency-Key")
	fence, wrong := strconv.ParseInt(call.Header.Get("Waterclock-Fence"), 10, 64)
	body, broken := io.ReadAll(call.Body)
	if key == "" || wrong != nil || broken != nil {
		out.WriteHeader(http.StatusBadRequest)
		return
	}
	out.WriteHeader(r.take(key, fence, body))
}

func main() {
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Args[1], &receiver{inbox: map[string]*entry{}}))
}

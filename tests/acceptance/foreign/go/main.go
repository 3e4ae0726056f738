// Schedules a job by one Avro record on waterclock.job-events: every three seconds, until it is deleted.
//
// Arguments: bootstrap servers, the file job_event.avsc, the job's name.
package main

import (
	"context"
	"log"
	"os"
	"regexp"
	"time"

	"github.com/hamba/avro/v2"
	"github.com/hamba/avro/v2/soe"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The fingerprint in front of a record is made without logical types, says Avro's specification; this library leaves
// them in. So they go before the schema is parsed: an instant is a plain long, microseconds since 1970.
var logicalType = regexp.MustCompile(`,\s*"logicalType":\s*"[a-z-]+"`)

// Fields that are not named here take the default that the schema names.
type jobEvent struct {
	Kind    string `avro:"kind"`
	Name    string `avro:"name"`
	Handler string `avro:"handler"`
	EveryUs *int64 `avro:"every_us"`
	Payload []byte `avro:"payload"`
}

func main() {
	bootstrap, file, name := os.Args[1], os.Args[2], os.Args[3]
	text, err := os.ReadFile(file)
	check(err)
	schema, err := avro.ParseBytes(logicalType.ReplaceAll(text, nil))
	check(err)
	codec, err := soe.NewCodec(schema) // Avro's single-object encoding
	check(err)

	every := (3 * time.Second).Microseconds()
	value, err := codec.Encode(jobEvent{"CREATE", name, "demo.echo", &every, []byte(`{"from":"go"}`)})
	check(err)

	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap))
	check(err)
	defer client.Close()
	record := &kgo.Record{
		Topic: "waterclock.job-events",
		Key:   []byte("default:" + name),
		Value: value,
		Headers: []kgo.RecordHeader{
			{Key: "content-type", Value: []byte("application/avro")},
			{Key: "ce_id", Value: []byte("go/" + name)}, // sent again within a day, it is ignored
		},
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	check(client.ProduceSync(ctx, record).FirstErr())
	log.Printf("%s asked for at %d/%d", name, record.Partition, record.Offset)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

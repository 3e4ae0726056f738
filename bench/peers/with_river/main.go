// River on PostgreSQL: `river producer` takes orders from its input, `river worker` works.
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"log"
	"log/slog"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

const atOnce = 2000

// Noop is a task that does nothing but say that it ran.
type Noop struct {
	Index uint64 `json:"index"`
}

// Kind names the task in River's table.
func (Noop) Kind() string { return "noop" }

type noopWorker struct {
	river.WorkerDefaults[Noop]
	sink *os.File
}

func (w *noopWorker) Work(_ context.Context, job *river.Job[Noop]) error {
	var stamp [16]byte
	binary.LittleEndian.PutUint64(stamp[:8], job.Args.Index)
	binary.LittleEndian.PutUint64(stamp[8:], math.Float64bits(instant()))
	_, err := w.sink.Write(stamp[:])
	return err
}

func instant() float64 { return float64(time.Now().UnixNano()) / 1e9 }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	pool, err := pgxpool.New(ctx, os.Getenv("PEER_SERVER"))
	check(err)
	driver := riverpgxv5.New(pool)
	if len(os.Args) == 2 && os.Args[1] == "producer" {
		migrator, err := rivermigrate.New(driver, nil)
		check(err)
		_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
		check(err)
		client, err := river.NewClient(driver, &river.Config{})
		check(err)
		obey(ctx, func(first, count uint64, at time.Time) {
			for begin := first; begin < first+count; begin += atOnce {
				end := min(begin+atOnce, first+count)
				jobs := make([]river.InsertManyParams, 0, end-begin)
				for index := begin; index < end; index++ {
					jobs = append(jobs, river.InsertManyParams{
						Args: Noop{index}, InsertOpts: &river.InsertOpts{ScheduledAt: at}})
				}
				_, err := client.InsertManyFast(ctx, jobs)
				check(err)
			}
		})
		return
	}
	work(ctx, driver)
}

func work(ctx context.Context, driver *riverpgxv5.Driver) {
	path := filepath.Join(os.Getenv("PEER_SINK"), strconv.Itoa(os.Getpid())+".stamps")
	sink, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	check(err)
	workers := river.NewWorkers()
	river.AddWorker(workers, &noopWorker{sink: sink})
	config := &river.Config{
		Logger:  slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Queues:  map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: number("PEER_MAX_WORKERS", 100)}},
		Workers: workers,
		// Zero means River's own default: 100 ms between fetches, 1 s between looks at what became due.
		FetchCooldown:     time.Duration(number("PEER_FETCH_COOLDOWN_MS", 0)) * time.Millisecond,
		FetchPollInterval: time.Duration(number("PEER_FETCH_POLL_MS", 0)) * time.Millisecond,
	}
	client, err := river.NewClient(driver, config)
	check(err)
	check(client.Start(context.WithoutCancel(ctx)))
	<-ctx.Done()
	quick, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = client.Stop(quick)
}

// obey carries out the harness's orders, as bench/peers/handler.py does; a zero instant means now.
func obey(ctx context.Context, enqueue func(first, count uint64, at time.Time)) {
	fmt.Println("ready")
	lines := bufio.NewScanner(os.Stdin)
	for ctx.Err() == nil && lines.Scan() {
		var order string
		var first, count uint64
		var seconds float64
		parts, _ := fmt.Sscan(lines.Text(), &order, &first, &count, &seconds)
		var at time.Time
		if order == "at" && parts == 4 {
			at = time.UnixMicro(int64(seconds * 1e6))
		} else if order != "now" || parts != 3 {
			log.Fatalf("%q is no order that this peer knows", lines.Text())
		}
		began := instant()
		enqueue(first, count, at)
		fmt.Printf("done %f %f\n", began, instant())
	}
}

func number(name string, otherwise int) int {
	if text := os.Getenv(name); text != "" {
		value, err := strconv.Atoi(text)
		check(err)
		return value
	}
	return otherwise
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

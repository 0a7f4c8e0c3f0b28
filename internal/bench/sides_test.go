package bench

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/seed-018f16cc/toolbus/internal/bench/usage"
)

// checkCounts compares the counts of a row with the messages and writes of the three pipelines. The upper bounds of
// messages only find what was counted twice over and over: on a busy machine few calls share the records, pull requests
// and heartbeats of their time, and requests that follow an answer end while the next call waits.
func checkCounts(t *testing.T, row Row) {
	t.Helper()
	if row.Ratio == nil || row.FloorRatio == nil || row.State == nil {
		t.Fatalf("%s: %+v", row.name(), row)
	}
	within := func(what string, got, least, most float64) {
		if got < least || got > most {
			t.Errorf("%s: %s is %.2f, want %.1f to %.1f", row.name(), what, got, least, most)
		}
	}
	within("state of a request", float64(row.State.Request), 100, 1000)
	within("state of an outcome", float64(row.State.Outcome), 100, 1000)
	within("durable writes of the floor", row.Floor.Writes, 2, 2.9) // few calls share a message of the record here
	for name, s := range map[string]*Stats{raw: row.Raw, theFloor: row.Floor, ours: row.Toolbus} {
		within(name+" round trips before the answer", s.RoundTrips, 2.9, 5.5)
		within(name+" round trips", s.AllRoundTrips, s.RoundTrips, 6)
		within(name+" caller sends", s.Caller.Sent, 0.99, 100)
		within(name+" caller receives", s.Caller.Received, 0.99, 100)
		within(name+" dispatcher sends", s.Dispatcher.Sent, 1, 100)
		within(name+" dispatcher receives", s.Dispatcher.Received, 1.9, 100)
		within(name+" worker sends", s.Worker.Sent, 2.9, 100)
		within(name+" worker receives", s.Worker.Received, 1.9, 100)
		within(name+" wake-ups", s.OwnWakeUps, 0.01, 10_000)
		within(name+" write calls", s.WriteCalls, 0.01, 10_000) // to files of the server; in-process connections need none
		within(name+" CPU", s.CPU, s.OwnCPU, s.OwnCPU)          // the server is embedded
	}
}

// A round trip is a request with an answer: before counts those that end while the caller waits, and all counts all.
// Deliveries, pull requests and the requests of the benchmark itself do not count.
func TestTrips(t *testing.T) {
	t.Parallel()
	tap := &tap{asks: "a.call", open: map[string]bool{}}
	for _, m := range [][2]string{
		{"beat", "in.1"}, {"in.1", ""}, // belongs to no call
		{"a.call.x", "in.caller"},
		{"log.q", "in.2"}, {"log.q", "$JS.ACK.LOG.1"}, {"in.2", ""},
		{"$JS.API.CONSUMER.MSG.NEXT.LOG.workers", "in.pull"}, {"in.pull", ""},
		{"log.o", "in.3"}, {"in.3", ""},
		{"record", "in.4"},
		{"in.caller", ""}, {"in.caller", ""}, // duplicate of an answer
		{"in.4", ""},
		{"$JS.ACK.LOG.1", ""},
		{"$JS.API.STREAM.INFO.LOG", watchInbox + ".1"}, {watchInbox + ".1", ""},
		{"lost", "in.5"},
	} {
		tap.see(m[0], m[1])
	}
	if tap.before != 3 || tap.all != 5 {
		t.Errorf("%d round trips before the answer, %d in all; want 3 and 5", tap.before, tap.all)
	}
}

func TestWakeUps(t *testing.T) {
	t.Parallel()
	_, before, err := usage.Own()
	if err != nil {
		t.Fatal(err)
	}
	if err := exec.Command("true").Run(); err != nil { // a child process that is waited for
		t.Fatal(err)
	}
	if _, after, err := usage.Own(); err != nil || after <= before {
		t.Errorf("%d wake-ups, %d before, %v", after, before, err)
	}
	writes, err := usage.WriteCalls()
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "x"))
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if _, err := file.WriteString("x"); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := usage.WriteCalls(); err != nil || n < writes+100 {
		t.Errorf("%d system calls for 100 writes, %v", n-writes, err)
	}
	if err := file.Close(); err != nil {
		t.Error(err)
	}
	if n, err := usage.WakeUps(os.Getpid()); err != nil || n == 0 {
		t.Errorf("%d wake-ups, %v", n, err)
	}
}

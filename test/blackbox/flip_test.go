package blackbox

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	clientlib "github.com/seed-018f16cc/toolbus/internal/client"
)

// blockMessage is a message in a block file of a stream, as nats-server 2.15 writes it: its length, sequence and time,
// the length of its subject, the subject, the rest, and a checksum.
type blockMessage struct {
	at, size int
	subject  string
}

const (
	recordHead   = 22 // length, sequence, time, and length of the subject
	recordMask   = 1<<31 - 1
	subjectAfter = 20
)

// messages returns the messages of a block file.
func messages(t *testing.T, file string) (all []blockMessage) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at+recordHead < len(data); {
		size := int(binary.LittleEndian.Uint32(data[at:]) & recordMask)
		subject := int(binary.LittleEndian.Uint16(data[at+subjectAfter:]))
		if size < recordHead || at+size > len(data) {
			t.Fatalf("%s: no message at %d", file, at)
		}
		all = append(all, blockMessage{at, size, string(data[at+recordHead : at+recordHead+subject])})
		at += size
	}
	return all
}

// blocks returns the block files of a stream in the folder of a server.
func blocks(t *testing.T, dir, stream string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "jetstream", "$G", "streams", stream, "msgs", "*.blk"))
	if err != nil || len(all) == 0 {
		t.Fatalf("%s: %v, %v", stream, all, err)
	}
	slices.Sort(all)
	return all
}

// flip changes one bit of a file.
func flip(t *testing.T, file string, at, bit int) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	data[at] ^= 1 << bit
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A bit of the call log flips at rest, and the server comes again and drops what it cannot read. No call runs a second
// time: a call that has lost its outcome is refused, and says so. Dispatchers that have lived on know it, and those that
// start later, too.
func TestFlips(t *testing.T) {
	t.Run("dispatchers live on", func(t *testing.T) { flipped(t, false) })
	t.Run("dispatchers start later", func(t *testing.T) { flipped(t, true) })
}

func flipped(t *testing.T, startLater bool) {
	var runs atomic.Int64
	d := deploy(t, map[string]spec{"pay": {class: call.SideEffectful, run: echo(&runs)}})
	d.topology.Partitions = 1
	dispatcher := d.dispatcher()
	d.executor(6)
	c := d.client()
	const calls = 6
	ask := func(n int) *envelope.Response {
		return mustCall(t, c, clientlib.Call{Tool: "pay", Key: fmt.Sprintf("flip-0123456789-%d", n),
			Input: input(map[string]int{"n": n}), Timeout: 60 * time.Second})
	}
	for n := range calls {
		wantStatus(t, ask(n), envelope.Success, "")
	}
	if startLater {
		dispatcher.stop()
	}
	d.srv.Stop()
	file := blocks(t, d.srv.Dir(), "KV_calls")[0]
	all := messages(t, file)
	last := all[len(all)-1]
	flip(t, file, last.at+last.size/2, 3)
	d.srv.Restart()
	if startLater {
		d.dispatcher()
	}
	damaged := 0
	for n := range calls {
		r := ask(n)
		switch {
		case r.Status == envelope.Success:
		case r.Error.Code == envelope.CodeLogDamaged && r.Error.Details.Effect == envelope.EffectUnknown:
			damaged++
		default:
			t.Errorf("call %d: %+v", n, r.Error)
		}
	}
	if runs.Load() != calls || damaged == 0 {
		t.Errorf("%d runs of %d calls; %d are known to be damaged", runs.Load(), calls, damaged)
	}
}

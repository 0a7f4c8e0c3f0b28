package blackbox

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
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

var flips = flag.Int("flips", 10, "number of bits that TestFlips flips")

// A bit of the call log flips at rest, and the server comes again and drops what it cannot read, time after time. No
// call runs a second time: a call that has lost its outcome is refused, and says so. Dispatchers that have lived on
// know it, and so do those that start later.
func TestFlips(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	d := deploy(t, map[string]spec{"pay": {class: call.SideEffectful, run: echo(&runs)}})
	d.topology.Partitions = 1
	dispatcher := d.dispatcher()
	d.executor(6)
	c := d.client()
	random := rand.New(rand.NewPCG(1, 2))
	calls, lost := 0, map[int]bool{}
	for n := range *flips {
		for range 3 {
			wantStatus(t, pay(t, c, calls), envelope.Success, "")
			calls++
		}
		if n%2 == 0 {
			dispatcher.stop()
		}
		d.srv.Stop()
		flipOne(t, d.srv.Dir(), random)
		d.srv.Restart()
		if n%2 == 0 {
			dispatcher = d.dispatcher()
		}
		for i := range calls {
			switch r := pay(t, c, i); {
			case r.Status == envelope.Success:
			case r.Status == envelope.TerminalError && r.Error.Code == envelope.CodeLogDamaged &&
				r.Error.Details.Effect == envelope.EffectUnknown:
				lost[i] = true
			default:
				t.Fatalf("flip %d, call %d: %s, %+v", n, i, r.Status, r.Error)
			}
		}
		if int(runs.Load()) != calls {
			t.Fatalf("flip %d: %d runs of %d calls", n, runs.Load(), calls)
		}
	}
	if len(lost) == 0 {
		t.Errorf("of %d flips none has damaged the end of a log", *flips)
	}
	t.Logf("%d flips damaged the end of %d of %d logs", *flips, len(lost), calls)
}

// pay makes the n-th call, or asks for it again.
func pay(t *testing.T, c *clientlib.Client, n int) *envelope.Response {
	t.Helper()
	return mustCall(t, c, clientlib.Call{Tool: "pay", Key: fmt.Sprintf("flip-0123456789-%d", n),
		Input: input(map[string]int{"n": n}), Timeout: 60 * time.Second})
}

// flipOne flips a bit of any message of the call log: of its time, subject, headers, body or checksum. A server takes
// all memory for one of a sequence.
func flipOne(t *testing.T, dir string, random *rand.Rand) {
	t.Helper()
	files := blocks(t, dir, "KV_calls")
	file := files[random.IntN(len(files))]
	all := messages(t, file)
	m := all[random.IntN(len(all))]
	at := recordHead + random.IntN(m.size-recordHead)
	t.Logf("%s: byte %d of a message of %s", filepath.Base(file), at, m.subject)
	flip(t, file, m.at+at, random.IntN(8))
}

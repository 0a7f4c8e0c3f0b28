package blackbox

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	clientlib "github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/subjects"
)

var allDamages = flag.Bool("damages", false, "damage the files of the call log in all ways")

// damages are ways in which the files of a stream are damaged, by name.
var damages = map[string]func(t *testing.T, files []string){
	"a truncated block":      func(t *testing.T, files []string) { halve(t, files[0]) },
	"a truncated last block": func(t *testing.T, files []string) { halve(t, files[len(files)-1]) },
	"a removed block": func(t *testing.T, files []string) {
		if err := os.Remove(files[0]); err != nil {
			t.Fatal(err)
		}
	},
}

// halve cuts off the second half of a file.
func halve(t *testing.T, file string) {
	t.Helper()
	info, err := os.Stat(file)
	if err == nil {
		err = os.Truncate(file, info.Size()/2)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A file of the call log loses its end, or is gone. No call runs a second time, and each that has lost its outcome is
// listed, for a dispatcher that has lived on and for one that starts later.
func TestDamages(t *testing.T) {
	t.Parallel()
	for name, damage := range damages {
		for _, lives := range []bool{true, false} {
			if !*allDamages && (name != "a removed block" || lives) {
				continue
			}
			t.Run(fmt.Sprintf("%s, the dispatcher lives on: %t", name, lives), func(t *testing.T) {
				var runs atomic.Int64
				d := deploy(t, map[string]spec{"pay": {class: call.SideEffectful, run: echo(&runs)}})
				d.topology.Partitions = 1
				dispatcher := d.dispatcher()
				d.executor(6)
				for i := range manyCalls {
					wantStatus(t, payMuch(t, d.client(), i), envelope.Success, "")
				}
				if !lives {
					dispatcher.stop()
				}
				d.srv.Stop()
				damage(t, blocks(t, d.srv.Dir(), subjects.Partition(0).Stream()))
				d.srv.Restart()
				if !lives {
					d.dispatcher()
				}
				d.wantNoticed(&runs)
			})
		}
	}
}

// manyCalls have requests of more than one block of 8 MiB.
const manyCalls = 45

// payMuch makes the n-th call, or asks for it again. Its input is large.
func payMuch(t *testing.T, c *clientlib.Client, n int) *envelope.Response {
	t.Helper()
	return mustCall(t, c, clientlib.Call{
		Tool: "pay", Key: fmt.Sprintf("damage-0123456789-%d", n), Timeout: 60 * time.Second,
		Input: input(map[string]any{"n": n, "pad": strings.Repeat("x", 200<<10)}),
	})
}

// wantNoticed asks for all calls again. It wants some to be damaged, these to be listed, and none to run again.
func (d *busDeployment) wantNoticed(runs *atomic.Int64) {
	d.t.Helper()
	c, lost := d.client(), 0
	for i := range manyCalls {
		if r := payMuch(d.t, c, i); r.Status != envelope.Success {
			wantLost(d.t, r, false)
			lost++
		}
	}
	listed, err := d.operator().Repairs(d.t.Context())
	if err != nil || len(listed) != lost || lost == 0 {
		d.t.Errorf("%d calls are damaged, %d are listed: %v", lost, len(listed), err)
	}
	if runs.Load() != manyCalls {
		d.t.Errorf("%d runs of %d calls", runs.Load(), manyCalls)
	}
	d.t.Logf("%d of %d calls are damaged", lost, manyCalls)
}

// A block of the call log is truncated at the leader of three servers, three times. No call runs a second time.
func TestDamagedLeader(t *testing.T) {
	if !*allDamages {
		t.Skip("runs with -damages")
	}
	var runs atomic.Int64
	servers := natstest.StartCluster(t, 3)
	d := deployOn(t, servers[0], map[string]spec{"pay": {class: call.SideEffectful, run: echo(&runs)}})
	d.topology.Partitions, d.topology.Replicas = 1, 3
	d.dispatcher()
	d.executor(6)
	c := &cluster{busDeployment: d, servers: servers}
	first := d.client()
	eventually(t, "the log is whole", func() bool { return c.whole(d.srv.JetStream(t)) })
	for i := range manyCalls {
		wantStatus(t, payMuch(t, first, i), envelope.Success, "")
	}
	js := d.srv.JetStream(t)
	for range 3 {
		eventually(t, "the log is whole", func() bool { return c.whole(js) })
		leader := c.leader(js)
		if leader == nil {
			t.Fatal("the log has no leader")
		}
		leader.Stop()
		for _, file := range blocks(t, leader.Dir(), subjects.Partition(0).Stream()) {
			if filepath.Base(file) == "1.blk" {
				halve(t, file)
			}
		}
		leader.Restart()
	}
	eventually(t, "the log is whole", func() bool { return c.whole(js) })
	again := d.client()
	lost := 0
	for i := range manyCalls {
		if r := payMuch(t, again, i); r.Status != envelope.Success {
			wantLost(t, r, false)
			lost++
		}
	}
	if runs.Load() != manyCalls {
		t.Errorf("%d runs of %d calls", runs.Load(), manyCalls)
	}
	t.Logf("%d of %d calls are damaged", lost, manyCalls)
}

package runstore_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// pulls collects the pull requests to consumers of the bucket, from now on.
func (p process) pulls() func() []string {
	p.T.Helper()
	var mu sync.Mutex
	var all []string
	_, err := p.NC.Subscribe("$JS.API.CONSUMER.MSG.NEXT."+subjects.RunsStream+".>", func(m *nats.Msg) {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, string(m.Data))
	})
	if err == nil {
		err = p.NC.Flush()
	}
	if err != nil {
		p.T.Fatal(err)
	}
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

// S4: a list of runs whose records are large, as earlier builds took them, asks the server for no more than its
// connection holds, and has a bounded page.
func TestListOfLargeRuns(t *testing.T) {
	const runs, most = 300, 512 << 10
	o := serve(t)
	for n := range runs {
		r := run(fmt.Sprint("r", n))
		r.Actors = slices.Repeat([]string{strings.Repeat("x", 250)}, 64+n%16)
		o.p.create(r)
	}
	pulls, listed := o.p.pulls(), 0
	for q := (envelope.RunListRequest{}); ; {
		page, refusal := o.List(t.Context(), q)
		if refusal != nil {
			t.Fatal(refusal)
		}
		answer, err := json.Marshal(page)
		if err != nil || len(answer) > most {
			t.Errorf("a page of %d bytes, %v", len(answer), err)
		}
		listed += len(page.Runs)
		if q.After = page.Next; q.After == 0 {
			break
		}
	}
	if listed != runs {
		t.Errorf("%d runs are listed, of %d", listed, runs)
	}
	bustest.WaitForNoConsumers(t, o.p.JS, subjects.RunsStream)
	asked := pulls()
	if len(asked) == 0 {
		t.Error("no pull was seen")
	}
	for _, request := range asked {
		var pull struct {
			MaxBytes int `json:"max_bytes"`
		}
		if err := json.Unmarshal([]byte(request), &pull); err != nil || pull.MaxBytes == 0 || pull.MaxBytes > 2<<20 {
			t.Errorf("a pull without a bound of bytes: %s", request)
		}
	}
}

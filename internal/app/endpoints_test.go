package app

import (
	"slices"
	"testing"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/audit/writer"
	"github.com/seed-018f16cc/toolbus/internal/auth/tokenstore"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/internal/operation"
)

// A dispatcher with tokens answers each operation of the table, and nothing else.
func TestEndpoints(t *testing.T) {
	var names, want []string
	n := &node{Conn: &Conn{JS: natstest.Start(t).JetStream(t)}, Clock: &bus.Clock{}}
	d := dispatcherParts{
		dispatcherProcess: &dispatcherProcess{node: n, tokens: &tokenstore.Store{}}, journal: &writer.Journal{},
		bulk:       &bulk{js: bus.Shared(n.JS)},
		dispatcher: &dispatcher.Dispatcher{},
	}
	for _, e := range d.endpoints() {
		names = append(names, e.Op)
		if e.All != operation.Named(e.Op).All {
			t.Errorf("%s: answered by all: %t", e.Op, e.All)
		}
	}
	for _, i := range operation.Table() {
		want = append(want, i.Name)
	}
	slices.Sort(names)
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("endpoints of\n%v, want\n%v", names, want)
	}
}

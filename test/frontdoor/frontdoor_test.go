package frontdoor

import (
	"errors"
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/toolbustest"
)

// One payment is made however often it is asked for, whoever pays nobody is told why, and all of it is on record.
func TestPay(t *testing.T) {
	tools, err := new(Ledger).Tools()
	if err != nil {
		t.Fatal(err)
	}
	bus := toolbustest.Start(t, tools)
	ctx := t.Context()

	var ref string
	call := toolbus.Call{Tool: "ledger.pay", Key: "invoice-2026-0042",
		OnAccepted: func(a toolbus.Accepted) { ref = a.Ref }}
	for range 3 {
		receipt, err := toolbus.Invoke[Receipt](ctx, bus.Client, call, Payment{To: "ada", Cents: 1250})
		if err != nil || receipt.Number != 1 {
			t.Errorf("%+v, %v", receipt, err)
		}
	}
	_, err = toolbus.Invoke[Receipt](ctx, bus.Client, toolbus.Call{Tool: "ledger.pay"}, Payment{To: "nobody"})
	failure, ok := errors.AsType[*toolbus.Failure](err)
	if !ok || !errors.Is(err, ErrNoAccount) || failure.Response.Error.Details.Effect != toolbus.EffectNone {
		t.Errorf("%v", err)
	}

	found, err := bus.Result(ctx, toolbus.CallQuery{Ref: ref})
	if err != nil || found.Response == nil || found.Response.Status != toolbus.Success {
		t.Errorf("%+v, %v", found, err)
	}
	if why, err := bus.Why(ctx, toolbus.CallQuery{Ref: ref}); err != nil || !strings.Contains(why, "succeeded") {
		t.Errorf("%q, %v", why, err)
	}
	if told, err := bus.Cancel(ctx, toolbus.CallQuery{Ref: ref}); err != nil || told.Phase != "decided" {
		t.Errorf("%+v, %v", told, err)
	}
	executed := 0
	for r, err := range bus.Audit(ctx, toolbus.AuditFilter{Call: ref, Event: "tool_executed", Follow: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if executed++; r.Ref == ref {
			break
		}
	}
	if executed != 1 {
		t.Errorf("%d executions on record", executed)
	}
}

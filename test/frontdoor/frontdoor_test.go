package frontdoor

import (
	"errors"
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/admin"
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

	call := toolbus.Call{Tool: "ledger.pay", Key: "invoice-2026-0042"}
	for range 3 {
		receipt, err := toolbus.Invoke[Receipt](ctx, bus.Client, call, Payment{To: "ada", Cents: 1250})
		if err != nil || receipt.Number != 1 {
			t.Errorf("%+v, %v", receipt, err)
		}
	}
	_, err = toolbus.Invoke[Receipt](ctx, bus.Client, toolbus.Call{Tool: "ledger.pay"}, Payment{To: "nobody"})
	failed, ok := errors.AsType[*toolbus.Error](err)
	if !ok || !errors.Is(err, ErrNoAccount) || failed.Effect() != toolbus.EffectNone {
		t.Errorf("%v", err)
	}

	operator, err := admin.Connect(ctx, bus.URL, admin.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer operator.Close()
	var ref string
	for r, err := range operator.AuditRecords(ctx, admin.AuditFilter{Event: "tool_executed", Follow: true}) {
		if err != nil {
			t.Fatal(err)
		}
		ref = r.Ref
		break
	}
	found, err := bus.Result(ctx, toolbus.CallRef{Ref: ref})
	if err != nil || found.Status != toolbus.Success {
		t.Errorf("%+v, %v", found, err)
	}
	if why, err := bus.Why(ctx, toolbus.CallRef{Ref: ref}); err != nil || !strings.Contains(why, "succeeded") {
		t.Errorf("%q, %v", why, err)
	}
	if told, err := bus.Cancel(ctx, toolbus.CallRef{Ref: ref}); err != nil || told.Phase != "decided" {
		t.Errorf("%+v, %v", told, err)
	}
	executed := 0
	for _, err := range operator.AuditRecords(ctx, admin.AuditFilter{Event: "tool_executed"}) {
		if executed++; err != nil {
			t.Fatal(err)
		}
	}
	if executed != 1 {
		t.Errorf("%d executions on record", executed)
	}
}

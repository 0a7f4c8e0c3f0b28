package record_test

import (
	"context"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/bustest"
	"github.com/seed-018f16cc/toolbus/question"
	"github.com/seed-018f16cc/toolbus/record"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// fixture is a bus with what the tests of this package do to it.
type fixture struct{ *bustest.Bus }

func setup(t *testing.T) *fixture {
	t.Helper()
	return &fixture{bustest.Start(t)}
}

// archives are the ways in which the record is read: directly, and through somebody who answers as dispatchers do.
func (f *fixture) archives() map[string]record.Archive {
	f.T.Helper()
	f.Serve(bus.Answering(subjects.OpStored, func(ctx context.Context, _ question.Sender,
		q question.Stored) (question.StoredPage, *envelope.Error) {
		page, err := record.Page(ctx, f.JS, q)
		if err != nil {
			return page, envelope.NewError(envelope.CodeUnavailable, err.Error())
		}
		page.Now = time.Now()
		return page, nil
	}))
	inbox, err := bus.NewInbox(f.NC, "default", "agent://auditor")
	if err != nil {
		f.T.Fatal(err)
	}
	f.T.Cleanup(func() { _ = inbox.Close() })
	return map[string]record.Archive{"direct": record.Direct(f.JS), "through": record.Through(inbox)}
}

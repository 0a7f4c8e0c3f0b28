package dispatcher

import (
	"context"
	"errors"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/internal/flow"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// errOtherLog says that a caller was to be told what is in a log, and there is another in its place.
var errOtherLog = errors.New("the log has expired, and was opened by another build")

// alike makes the fingerprint that a asks with of the kind that its log has, or is to get: those of two kinds are
// never equal.
func (d *Dispatcher) alike(ctx context.Context, s call.State, a *caller) (err error) {
	former := envelope.IsFormer(s.Fingerprint)
	if s.Empty() {
		former = format.Event.Current() == format.EventFormer
	}
	switch {
	case a.now == "" && !s.Empty() && former != envelope.IsFormer(a.ask.Fingerprint):
		return errOtherLog
	case a.now == "":
		return nil
	case !former:
		a.ask.Fingerprint = a.now
	default:
		if a.ask.Fingerprint, err = d.former(ctx, a); err != nil {
			return err
		}
	}
	if s.Empty() {
		a.ask.Facts.Fingerprint = a.ask.Fingerprint
	}
	return nil
}

// former returns the fingerprint of the former kind. Only the input says it, so a large one is read once more, as long
// as there are logs with it.
func (d *Dispatcher) former(ctx context.Context, a *caller) (_ string, err error) {
	switch {
	case a.former != "":
	case a.large != nil:
		a.former, err = d.formerOfLarge(ctx, a)
	default:
		a.former, err = envelope.FormerFingerprint(a.req, a.req.Input)
	}
	return a.former, err
}

// formerOfLarge is former for an input in the payload store, which has passed all checks, so that its hash suffices.
// The others that wait for the log have mostly the same input: what is found out is remembered for them.
func (d *Dispatcher) formerOfLarge(ctx context.Context, a *caller) (string, error) {
	key, ref := "former:"+a.large.key, a.large.ref
	if p := d.inputs.known.Get(key, d.Now()); p != nil {
		return p.fingerprint, nil
	}
	ctx, cancel := context.WithTimeout(ctx, batchTime)
	defer cancel()
	share, err := d.inputs.room.Acquire(ctx, flow.Sender(a.in.From), 2*ref.Bytes)
	if err != nil {
		return "", err
	}
	defer share.Release()
	input, err := d.Payloads.Get(ctx, subjects.Owner(a.in.From).On(a.ask.Facts.Pool), ref)
	if err != nil {
		return "", err
	}
	fingerprint, err := envelope.FormerFingerprint(a.req, input)
	if err == nil {
		d.inputs.known.Put(key, &prints{fingerprint: fingerprint}, d.Now())
	}
	return fingerprint, err
}

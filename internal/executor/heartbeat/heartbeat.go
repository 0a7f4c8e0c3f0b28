package heartbeat

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Heartbeat is a heartbeat of an executor, as it is stored.
type Heartbeat struct {
	Form     int             `json:"form"`
	Pool     string          `json:"pool"`
	Instance string          `json:"instance"`
	Overflow OverflowSupport `json:"behind,omitzero"`

	Definitions Definitions `json:"definitions,omitzero"`
}

// OverflowSupport says whether an executor pulls what goes behind, see [subjects.Queue].
type OverflowSupport string

// What executors may say of it. Older builds say nothing.
const (
	PullsMainOnly OverflowSupport = ""       // it does not
	PullsUnknown  OverflowSupport = "untold" // it has not found out
	PullsAll      OverflowSupport = "pulled"
)

// decodeBeat reads a heartbeat. The error is a [format.Error] where an executor of another age beats;
// any other says that nobody does: whoever reaches the server may write to the bucket.
func decodeBeat(subject string, data []byte) (b Heartbeat, err error) {
	_, instance, err := subjects.ParsePool(subject)
	switch {
	case err != nil:
		return b, err
	case string(data) == instance: // the plain name is how Toolbus 0.1 beats
		return b, format.Entry.Check(0)
	}
	if err := json.Unmarshal(data, &b); err != nil {
		return b, err
	}
	return b, format.Entry.Check(b.Form)
}

// maxOld bounds how many executors are looked at by Old.
const maxOld = 1000

// Old returns a [format.Error] for the executors of Toolbus 0.1 that beat on this bus. They would acknowledge
// away what they cannot read.
func (p *Store) Old(ctx context.Context) error {
	var all error
	err := p.each(ctx, subjects.PoolsAll, maxOld, func(subject string, now time.Time) error {
		all = errors.Join(all, p.old(ctx, subject, now))
		return nil
	})
	if err != nil {
		return fmt.Errorf("pools: %w", err)
	}
	return all
}

// old is Old for the heartbeat on a subject. One that was not renewed for long is of an executor that is gone.
func (p *Store) old(ctx context.Context, subject string, now time.Time) error {
	msg, err := p.stream.GetLastMsgForSubject(ctx, subject)
	if err != nil || now.Sub(msg.Time) > oldLease {
		return nil
	}
	_, err = decodeBeat(subject, msg.Data)
	if e, ok := errors.AsType[*format.Error](err); ok && e.Version == 0 {
		return fmt.Errorf("executor %s: %w", subject, err)
	}
	return nil
}

// oldLease is longer than any lease that makes sense.
const oldLease = time.Minute

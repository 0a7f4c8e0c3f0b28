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

// Heartbeat is the stored form of a heartbeat.
type Heartbeat struct {
	Form     int             `json:"form"`
	Pool     string          `json:"pool"`
	Instance string          `json:"instance"`
	Overflow OverflowSupport `json:"behind,omitzero"`

	Definitions Definitions `json:"definitions,omitzero"`
}

// OverflowSupport tells whether an executor pulls the overflow queue, see [subjects.Queue].
type OverflowSupport string

// Values of OverflowSupport. Older builds send none.
const (
	PullsMainOnly OverflowSupport = ""       // it does not pull it
	PullsUnknown  OverflowSupport = "untold" // it does not know yet
	PullsAll      OverflowSupport = "pulled"
)

// decodeBeat decodes a heartbeat. The error is a [format.Error] if an executor of an incompatible build sent it. With
// any other error the message is not a heartbeat.
func decodeBeat(subject string, data []byte) (b Heartbeat, err error) {
	_, instance, err := subjects.ParsePool(subject)
	switch {
	case err != nil:
		return b, err
	case string(data) == instance: // Toolbus 0.1 sends the name alone
		return b, format.Entry.Check(0)
	}
	if err := json.Unmarshal(data, &b); err != nil {
		return b, err
	}
	return b, format.Entry.Check(b.Form)
}

// maxOld limits how many heartbeats Old reads.
const maxOld = 1000

// Old returns an error with a [format.Error] for each running executor of Toolbus 0.1 on this bus, or nil. Such
// executors would acknowledge work messages that they cannot read.
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

// old is Old for the heartbeat on one subject. It ignores a heartbeat older than oldLease: its executor has stopped.
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

// oldLease is longer than any reasonable lease.
const oldLease = time.Minute

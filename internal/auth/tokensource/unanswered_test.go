package tokensource

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// forgetful is an office that does not answer the first question.
type forgetful struct {
	*office
	forgot bool
}

func (f *forgetful) Ask(ctx context.Context, op string, q, answer any) (*envelope.Error, error) {
	if !f.forgot {
		f.forgot = true
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return f.office.Ask(ctx, op, q, answer)
}

// A token does not expire because one question, or its answer, is lost, however short its life is.
func TestOneQuestionMayBeLost(t *testing.T) {
	for _, life := range []time.Duration{6 * time.Second, 10 * time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			o := newOffice(t)
			b := o.bearer(o.file(o.token(life)))
			_, ends, _ := b.Current()
			ctx, stop := context.WithTimeout(t.Context(), 2*life)
			defer stop()
			timer.Sleep(ctx, time.Until(b.renewAt))
			if _, ok := b.insist(ctx, &forgetful{office: o}); !ok || time.Now().After(ends) {
				t.Errorf("a token of %s is renewed %s after it has expired", life, time.Since(ends))
			}
		})
	}
}

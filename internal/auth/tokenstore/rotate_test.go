package tokenstore_test

import (
	"context"
	"errors"
	"testing"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/auth/tokenstore"
)

// Keys that cannot be recorded as rotated stay as they are, also with distrust: else nobody could issue a credential.
func TestUnrecordedRotation(t *testing.T) {
	c := newCounter(t)
	token := c.issue(c.Store, c.person("agent://a"))
	full := tokenstore.Service{Store: c.Store, Record: func(context.Context, audit.Record) error {
		return errors.New("the record is full")
	}}
	for _, distrust := range []bool{false, true} {
		if _, refusal := full.Rotate(t.Context(), &c.operator, envelope.RotateRequest{Distrust: distrust}); refusal == nil {
			t.Errorf("distrust %v: rotated", distrust)
		}
	}
	r, refusal := c.Rotate(t.Context(), &c.operator, envelope.RotateRequest{})
	c.is("rotate", refusal, "")
	if last := c.records[len(c.records)-1]; last.Event != audit.KeyRotated || r.KeyID == "" {
		t.Errorf("on record: %+v of key %s", last, r.KeyID)
	}
	late := c.store() // it reads what is stored
	if _, err := late.Verifier().Verify(token, c.now); err != nil {
		t.Errorf("a token of before: %v", err)
	}
}

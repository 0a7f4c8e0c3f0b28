package streaming

import (
	"bytes"
	"errors"
	"testing"

	"github.com/seed-018f16cc/toolbus/subjects"
)

// What an actor has stored is there for nobody else, in another tenant or in the same; what another stores of the same
// content leaves it alone.
func TestPayloadsHaveOwners(t *testing.T) {
	t.Parallel()
	_, stream, p := newPayloads(t)
	ctx, data := testContext(t), content(partSize+1)
	ref, err := p.Put(ctx, mine, data)
	if err != nil {
		t.Fatal(err)
	}
	for _, other := range []subjects.PayloadOwner{
		subjects.Owner{Tenant: "acme", Actor: "agent://you"}.On(mine.Pool),
		subjects.Owner{Tenant: "other", Actor: mine.Actor}.On(mine.Pool), mine.On("other"),
	} {
		if _, err := p.Get(ctx, other, ref); !errors.Is(err, ErrMissing) {
			t.Errorf("%v: %v", other, err)
		}
		if err := p.putPart(ctx, other.Payload(ref.SHA256, 0), []byte("not it"), true); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := p.Get(ctx, mine, ref); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if info, err := stream.Info(ctx); err != nil || info.State.Msgs != 5 {
		t.Errorf("%d messages, %v", info.State.Msgs, err)
	}
}

package tokenstore

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// word returns 32 random bytes for what a request creates. All copies of a request get the same ones, at any
// dispatcher. Only the keys of the deployment give them away. of has the kind of what is created, its creator and its
// content, so that two creations with one id differ.
func (s *Store) word(ctx context.Context, of ...any) []byte {
	id := call.CredentialFromContext(ctx).Request
	text, err := format.Marshal(format.Message, append(of, id))
	if id == "" || err != nil { // from a client of an earlier build; all values are our own types
		random := make([]byte, sha256.Size)
		_, _ = rand.Read(random) // never fails
		return random
	}
	mac := hmac.New(sha256.New, s.secret)
	mac.Write(text)
	return mac.Sum(nil)
}

// tries returns the pauses between attempts to store an entry that others may store at the same time.
func tries() timer.Backoff { return timer.Backoff{Pause: 50 * time.Millisecond} }

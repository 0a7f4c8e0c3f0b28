package tokenstore_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/auth/tokenstore"
	"github.com/seed-018f16cc/toolbus/internal/policy/replica"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// witness is a store that keeps copies, with what it has logged.
type witness struct {
	*tokenstore.Store
	mu  sync.Mutex
	log bytes.Buffer
}

func (w *witness) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(p)
}

func (w *witness) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.String()
}

func (w *witness) says(text string) bool { return strings.Contains(w.String(), text) }

// witness returns a store that was read within comeUp.
func (o *offices) witness() *witness {
	o.T.Helper()
	js, err := jetstream.New(o.Srv.Connect(o.T, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond)))
	if err != nil {
		o.T.Fatal(err)
	}
	w := &witness{}
	log := slog.New(slog.NewTextHandler(w, nil))
	copies, err := replica.OpenCopies(o.T.Context(), js, log)
	if err != nil {
		o.T.Fatal(err)
	}
	w.Store, err = tokenstore.Open(o.T.Context(), js, o.keys, tokenstore.Options{
		Now: time.Now, Logger: log, Copies: copies,
	})
	if err != nil {
		o.T.Fatal(err)
	}
	run(o.T, w.Store)
	select {
	case <-w.Ready():
	case <-time.After(comeUp):
		o.T.Fatalf("not read after %s: %s", comeUp, w)
	}
	return w
}

// comeUp is the time within which a store has read whatever can be read.
const comeUp = 8 * time.Second

// proves waits until a store has the newest entries.
func (o *offices) proves(w *witness) {
	o.T.Helper()
	ctx, cancel := context.WithTimeout(o.T.Context(), 2*comeUp)
	defer cancel()
	if err := w.Prove(ctx); err != nil {
		o.T.Fatalf("%v: %s", err, w)
	}
}

// token returns a token of an agent that one issues.
func (o *offices) token(w *witness, actor string) (string, auth.Principal) {
	p := o.person(actor)
	return o.issue(w.Store, p), p
}

// damage flips a bit of an entry, and of its copy if so, while the server is stopped.
func (o *offices) damage(entry string, bit int, copied bool) {
	o.T.Helper()
	o.Srv.Stop()
	const headers = 12 // what is this far after the subject are headers or the body
	o.Srv.Damage(subjects.ControlStream, entry, len(entry)+headers+bit)
	if c := subjects.Copy(entry); copied {
		o.Srv.Damage(subjects.CopiesStream, c, len(c)+headers+bit)
	}
	o.Srv.Restart()
}

// remake deletes the bucket, and makes it again as a dispatcher does that starts.
func (o *offices) remake() {
	o.T.Helper()
	// A request is lost if the connection has not noticed yet that the server was restarted.
	err := timer.Backoff{Try: time.Second}.Until(o.T.Context(), func(ctx context.Context) (bool, error) {
		err := o.JS.DeleteStream(ctx, subjects.ControlStream)
		if errors.Is(err, jetstream.ErrStreamNotFound) { // by the try before, whose answer was late
			err = nil
		}
		return err == nil || bus.IsAnswered(err), err
	})
	if err != nil {
		o.T.Fatal(err)
	}
	if err := bus.Ensure(o.T.Context(), o.JS, bus.TopologyOptions{}); err != nil {
		o.T.Fatal(err)
	}
}

// knows checks what a store says of each token, once it has the newest entries.
func (o *offices) knows(w *witness, tokens map[string]error) {
	o.T.Helper()
	o.proves(w)
	for token, want := range tokens {
		if _, err := w.Verifier().Verify(token, time.Now()); !errors.Is(err, want) {
			o.T.Errorf("%v, want %v: %s", err, want, w)
		}
	}
}

// Whichever entry of keys and revocations is damaged, stores come up, know it from its copy, and take changes. They do
// so after further restarts of the server.
func TestDamagedEntries(t *testing.T) {
	for kind := range 3 {
		o := newOffices(t)
		before := o.witness()
		all, entries, family := o.some(before)
		o.damage(entries[kind], kind, false)
		after := o.witness()
		for range 2 {
			o.knows(before, all)
			o.knows(after, all)
			if !after.says("its copy counts") {
				t.Errorf("%s: %s", entries[kind], after)
			}
			err := after.Revoke(t.Context(), family, "operator")
			_, err2 := after.Bar(t.Context(), "acme", "agent://b", "operator")
			_, err3 := after.Rotate(t.Context(), false)
			if err := errors.Join(err, err2, err3); err != nil {
				t.Error(entries[kind], err)
			}
			o.knows(after, all)
			o.Srv.Restart()
		}
		o.remake() // the repair
		for _, w := range []*witness{before, after, o.witness()} {
			o.knows(w, all)
		}
	}
}

// some issues three tokens, and revokes the family of one and the actor of another. It returns what verifiers say of
// each, the entries of the key, of the family and of the actor, and the family.
func (o *offices) some(w *witness) (all map[string]error, entries []string, family string) {
	o.T.Helper()
	good, _ := o.token(w, "agent://good")
	revoked, p := o.token(w, "agent://a")
	barred, _ := o.token(w, "agent://b")
	_, err := w.Bar(o.T.Context(), "acme", "agent://b", "operator")
	key, err2 := auth.Inspect(good)
	if err := errors.Join(err, err2, w.Revoke(o.T.Context(), p.Family, "operator")); err != nil {
		o.T.Fatal(err)
	}
	all = map[string]error{good: nil, revoked: auth.ErrRevoked, barred: auth.ErrRevoked}
	o.knows(w, all)
	return all, []string{
		subjects.SigningKey(key.KeyID), subjects.Revoked(p.Family), subjects.RevokedActor("acme", "agent://b"),
	}, p.Family
}

// If neither an entry nor its copy can be read, stores come up, name it, and admit nothing that it could forbid: no
// token of a key, of a family, or of an actor until then.
func TestUnknownEntries(t *testing.T) {
	for kind := range 3 {
		o := newOffices(t)
		before := o.witness()
		all, entries, _ := o.some(before)
		o.damage(entries[kind], kind, true)
		if kind == 0 {
			for token := range all {
				all[token] = auth.ErrUnknownKey
			}
		}
		w := o.witness()
		for range 2 {
			o.knows(w, all)
			for token, want := range all {
				o.hears(before.Store, token, want)
			}
			if !w.says("neither the entry nor its copy can be read") || !w.says(entries[kind]) {
				t.Errorf("%s: %s", entries[kind], w)
			}
			o.Srv.Restart()
		}
		if o.now = time.Now().Add(time.Second); kind > 0 {
			late, _ := o.token(w, "agent://b")
			all[late] = nil // it is issued after what could not be read
			o.knows(o.witness(), all)
		}
	}
}

// Keys and revocations are known after the bucket was deleted, and after an old backup of it was put back, also by
// stores that live on, and with what is stored then.
func TestLostBucket(t *testing.T) {
	o := newOffices(t)
	before := o.witness()
	first, _ := o.token(before, "agent://first")
	good, p := o.token(before, "agent://good")
	restore := o.Srv.Backup(subjects.ControlStream)
	o.proves(before)
	revoked, q := o.token(before, "agent://a")
	if err := before.Revoke(t.Context(), q.Family, "operator"); err != nil {
		t.Fatal(err)
	}
	if _, err := before.Rotate(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	other, r := o.token(o.witness(), "agent://other")
	all := map[string]error{
		first: auth.ErrUnknownKey, good: auth.ErrUnknownKey, revoked: auth.ErrUnknownKey, other: nil,
	}
	o.knows(before, all)
	restore()
	o.knows(before, all)
	o.knows(o.witness(), all)
	o.remake()
	o.knows(before, all)
	fresh := o.witness()
	o.knows(fresh, all)
	if err := fresh.Revoke(t.Context(), r.Family, "operator"); err != nil {
		t.Fatal(err)
	}
	all[other] = auth.ErrRevoked
	o.knows(before, all)
	o.remake()
	o.knows(before, all)
	if err := before.Revoke(t.Context(), p.Family, "operator"); err != nil {
		t.Fatal(err)
	}
	o.knows(o.witness(), all)
}

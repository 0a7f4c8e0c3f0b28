package tokenstore_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/auth/tokenstore"
	"github.com/seed-018f16cc/toolbus/internal/deployment"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/internal/timer/timertest"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// offices are the stores of several dispatchers on one bus. Their clock is set by the test.
type offices struct {
	*bustest.Bus
	keys *deployment.Keys
	now  time.Time
}

func newOffices(t *testing.T) *offices {
	t.Helper()
	keys, err := deployment.NewKeys("test")
	if err != nil {
		t.Fatal(err)
	}
	return &offices{Bus: bustest.Start(t), keys: keys, now: time.Now()}
}

// open returns a store that has not been read.
func (o *offices) open() *tokenstore.Store {
	o.T.Helper()
	now := o.now
	js, err := jetstream.New(o.Srv.Connect(o.T))
	if err != nil {
		o.T.Fatal(err)
	}
	s, err := tokenstore.Open(o.T.Context(), js, o.keys, tokenstore.Options{Now: func() time.Time { return now }})
	if err != nil {
		o.T.Fatal(err)
	}
	return s
}

// store returns one that is being read.
func (o *offices) store() *tokenstore.Store {
	o.T.Helper()
	s := o.open()
	run(o.T, s)
	<-s.Ready()
	return s
}

func run(t *testing.T, s *tokenstore.Store) {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done })
}

func (o *offices) person(actor string) auth.Principal {
	return auth.Principal{
		Tenant: "acme", Actor: actor, Role: auth.Agent, Scopes: []string{"pay"}, ID: auth.NewID(),
		Family: auth.NewID(), Issued: o.now.Truncate(time.Second),
		Expires:    o.now.Add(auth.Life).Truncate(time.Second),
		RenewUntil: o.now.Add(24 * time.Hour).Truncate(time.Second),
	}
}

func (o *offices) issue(s *tokenstore.Store, p auth.Principal) string {
	o.T.Helper()
	token, err := s.Issue(o.T.Context(), p, "operator")
	if err != nil {
		o.T.Fatal(err)
	}
	return token
}

// hears waits until a store says so of a token.
func (o *offices) hears(s *tokenstore.Store, token string, want error) {
	o.T.Helper()
	deadline := time.After(10 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		_, err := s.Verifier().Verify(token, o.now)
		if errors.Is(err, want) {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			o.T.Fatalf("%v, want %v", err, want)
		}
	}
}

// Nothing is believed before the store was read; then what one dispatcher has issued all believe, and what one revokes
// none.
func TestStoreIsShared(t *testing.T) {
	o := newOffices(t)
	one, two, blind := o.store(), o.store(), o.open()
	a, b := o.person("agent://a"), o.person("agent://b")
	token, other := o.issue(one, a), o.issue(one, b)
	for _, s := range []*tokenstore.Store{one, two} {
		if _, err := s.Verifier().Verify(token, o.now); err != nil {
			t.Error(err)
		}
	}
	if _, err := blind.Verifier().Verify(token, o.now); err == nil {
		t.Error("believed before the store was read")
	}
	if _, err := blind.Mint(a); !errors.Is(err, auth.ErrNotReady) {
		t.Errorf("minted before the store was read: %v", err)
	}
	child, err := a.Narrow(auth.Narrowing{}, o.now)
	if err != nil {
		t.Fatal(err)
	}
	narrowed, err := two.Mint(child)
	if err != nil {
		t.Fatal(err)
	}
	watch := timertest.StartStallMeter()
	defer watch.End()
	began := time.Now()
	if err := one.Revoke(t.Context(), a.Family, "operator"); err != nil {
		t.Fatal(err)
	}
	o.hears(two, token, auth.ErrRevoked)
	if took := time.Since(began); took > time.Second+watch.Late() {
		t.Errorf("a revocation took %v", took)
	}
	o.hears(two, narrowed, auth.ErrRevoked)
	if _, err := two.Verifier().Verify(other, o.now); err != nil {
		t.Error("another family was revoked, too:", err)
	}
	run(t, blind)
	<-blind.Ready()
	o.hears(blind, token, auth.ErrRevoked)
}

// Dispatchers may start for the first time at the same moment.
func TestFirstKeyOfManyAtOnce(t *testing.T) {
	keys, err := deployment.NewKeys("test")
	if err != nil {
		t.Fatal(err)
	}
	servers := natstest.StartCluster(t, 3)
	js := servers[0].JetStream(t)
	if err := bus.Ensure(t.Context(), js, bus.TopologyOptions{Replicas: 3}); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 24 {
		js := servers[i%3].JetStream(t)
		all.Go(func() {
			if _, err := tokenstore.Open(t.Context(), js, keys, tokenstore.Options{Now: time.Now}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// What the deployment's first key has signed before any dispatcher ran is believed, too.
func TestFirstKey(t *testing.T) {
	o := newOffices(t)
	signer, err := o.keys.Signer()
	if err != nil {
		t.Fatal(err)
	}
	token, err := signer.Mint(o.person("agent://a"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.store().Verifier().Verify(token, o.now); err != nil {
		t.Error(err)
	}
}

func TestBarredActor(t *testing.T) {
	o := newOffices(t)
	one, two := o.store(), o.store()
	a, b := o.person("agent://a"), o.person("agent://b")
	token, bystander := o.issue(one, a), o.issue(one, b)
	sub, err := a.Narrow(auth.Narrowing{Actor: "agent://a/sub"}, o.now)
	if err != nil {
		t.Fatal(err)
	}
	unlisted := o.person("agent://a/offline")
	narrowed, err := one.Mint(sub)
	if err != nil {
		t.Fatal(err)
	}
	offline, err := one.Mint(unlisted)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := two.Bar(t.Context(), "acme", "agent://a", "operator"); n.Families != 1 || err != nil {
		t.Errorf("%d families: %v", n.Families, err)
	}
	o.hears(one, token, auth.ErrRevoked)
	o.hears(one, narrowed, auth.ErrRevoked)
	o.hears(one, offline, auth.ErrRevoked)
	if _, err := one.Verifier().Verify(bystander, o.now); err != nil {
		t.Error(err)
	}
	all, err := one.Issued(t.Context())
	if err != nil || len(all) != 2 {
		t.Fatalf("%+v: %v", all, err)
	}
	for _, c := range all {
		if c.Revoked != (c.Actor == "agent://a") || c.By != "operator" {
			t.Errorf("%+v", c)
		}
	}
}

// What was revoked while a dispatcher could not reach the server, it hears of when it can; meanwhile it keeps what it
// knew.
func TestStoreWithoutServer(t *testing.T) {
	o := newOffices(t)
	s := o.store()
	a, b := o.person("agent://a"), o.person("agent://b")
	token, other := o.issue(s, a), o.issue(s, b)
	if err := s.Revoke(t.Context(), a.Family, "operator"); err != nil {
		t.Fatal(err)
	}
	o.hears(s, token, auth.ErrRevoked)
	o.Srv.Stop()
	if _, err := s.Verifier().Verify(token, o.now); !errors.Is(err, auth.ErrRevoked) {
		t.Error("forgotten without a server:", err)
	}
	o.hears(s, other, auth.ErrNotReady) // who knows what was revoked since
	o.Srv.Restart()
	if err := o.store().Revoke(t.Context(), b.Family, "operator"); err != nil {
		t.Fatal(err)
	}
	o.hears(s, other, auth.ErrRevoked)
}

// A token that was renewed after its actor was barred, by a dispatcher whose clock is ahead of that of whoever barred
// it, is barred, too.
func TestBarredByAClockThatIsBehind(t *testing.T) {
	o := newOffices(t)
	o.now = time.Now().Add(-time.Minute)
	behind := o.store()
	o.now = time.Now().Add(-time.Second)
	s := o.store()
	token := o.issue(s, o.person("agent://a"))
	if _, err := behind.Bar(t.Context(), "acme", "agent://a", "operator"); err != nil {
		t.Fatal(err)
	}
	o.hears(s, token, auth.ErrRevoked)
}

// What is issued to an actor at once after it was barred is good.
func TestIssuedAfterABar(t *testing.T) {
	o := newOffices(t)
	js, err := jetstream.New(o.Srv.Connect(t))
	if err != nil {
		t.Fatal(err)
	}
	s, err := tokenstore.Open(t.Context(), js, o.keys, tokenstore.Options{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	run(t, s)
	<-s.Ready()
	office := &tokenstore.Service{Store: s, Record: func(context.Context, audit.Record) error { return nil }}
	boss := &auth.Principal{Tenant: "acme", Actor: "operator", Role: auth.Operator}
	for range 5 {
		if _, err := s.Bar(t.Context(), "acme", "agent://a", "operator"); err != nil {
			t.Fatal(err)
		}
		for _, actor := range []string{"agent://a", "agent://a/sub"} {
			a, refusal := office.Issue(t.Context(), boss, envelope.IssueRequest{
				Tenant: "acme", Actor: actor, Role: "agent", RenewS: 3600,
			})
			if refusal != nil {
				t.Fatal(refusal)
			}
			p, err := s.Verifier().Verify(a.Token, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			renewed, refusal := office.Renew(t.Context(), p)
			if refusal != nil {
				t.Fatal(refusal)
			}
			narrowed, refusal := office.Narrow(t.Context(), p, envelope.NarrowRequest{})
			if refusal != nil {
				t.Fatal(refusal)
			}
			for _, token := range []string{renewed.Token, narrowed.Token} {
				if _, err := s.Verifier().Verify(token, time.Now()); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

// Whoever has not heard of the newest revocation yet knows that, whatever was read before.
func TestProof(t *testing.T) {
	o := newOffices(t)
	s, deaf := o.store(), o.open()
	if err := s.Prove(t.Context()); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err := deaf.Prove(ctx)
	if !errors.Is(err, auth.ErrNotReady) && !errors.Is(err, context.DeadlineExceeded) { // a slow server answers too late
		t.Error("it knows what it was not told:", err)
	}
	for range 20 {
		family := auth.NewID()
		if err := s.Revoke(t.Context(), family, "operator"); err != nil {
			t.Fatal(err)
		}
		if err := s.Prove(t.Context()); err != nil || !s.Verifier().Revoked.Family(family) {
			t.Error("proven, and not known:", err)
		}
	}
}

// What was revoked last may be gone for its age when everything is read anew: what is left is believed.
func TestNewestEntryIsGone(t *testing.T) {
	o := newOffices(t)
	nc := o.Srv.Connect(t)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	s, err := tokenstore.Open(t.Context(), js, o.keys, tokenstore.Options{Now: func() time.Time { return o.now }})
	if err != nil {
		t.Fatal(err)
	}
	run(t, s)
	<-s.Ready()
	a, b := o.person("agent://a"), o.person("agent://b")
	revoked, good := o.issue(s, a), o.issue(s, b)
	if err := s.Revoke(t.Context(), a.Family, "operator"); err != nil {
		t.Fatal(err)
	}
	o.hears(s, revoked, auth.ErrRevoked)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := s.Prove(ctx); err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), subjects.ControlStream)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.DeleteMsg(t.Context(), stream.CachedInfo().State.LastSeq); err != nil {
		t.Fatal(err)
	}
	if err := nc.ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	o.hears(s, revoked, nil)
	if err := s.Prove(ctx); err != nil {
		t.Error(err)
	}
	if _, err := s.Verifier().Verify(good, o.now); err != nil {
		t.Error(err)
	}
}

// A new key is known before it is used, and the old one good until what it has signed has expired.
func TestRotation(t *testing.T) {
	o := newOffices(t)
	one := o.store()
	former := o.issue(one, o.person("agent://a"))
	r, err := one.Rotate(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	if until := o.now.Add(auth.MaxLife); !r.Since.After(o.now) || r.Until.Before(until) {
		t.Errorf("%+v", r)
	}
	signedWith := func(s *tokenstore.Store) string {
		token, err := s.Mint(o.person("agent://a"))
		if err != nil {
			t.Fatal(err)
		}
		p, err := auth.Inspect(token)
		if err != nil {
			t.Fatal(err)
		}
		return p.KeyID
	}
	before := o.store()
	if signedWith(before) == r.KeyID {
		t.Error("the new key is used at once")
	}
	if again, err := before.Rotate(t.Context(), false); err != nil || again.KeyID != r.KeyID {
		t.Errorf("rotated again: %+v %v", again, err)
	}
	o.now = r.Since
	during := o.store()
	if signedWith(during) != r.KeyID {
		t.Error("the new key is not used")
	}
	fresh := o.issue(during, o.person("agent://a"))
	for _, token := range []string{former, fresh} {
		if _, err := before.Verifier().Verify(token, o.now); err != nil {
			t.Error("in between:", err)
		}
	}
	o.now = r.Until
	after := o.store()
	p, err := after.Verifier().Verify(former, o.now)
	if !errors.Is(err, auth.ErrExpired) || p == nil {
		t.Error("a token of the former key is good for more than to be renewed:", err)
	}
	if _, err := after.Rotate(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	distrusting := o.store()
	for _, token := range []string{former, fresh} {
		if _, err := distrusting.Verifier().Verify(token, o.now); !errors.Is(err, auth.ErrUnknownKey) {
			t.Error("a key that is not trusted is good for something:", err)
		}
	}
	if signedWith(distrusting) == r.KeyID {
		t.Error("a key that is not trusted is used")
	}
}

// Private keys lie in the bucket sealed: whoever reads it cannot mint.
func TestPrivateKeysAreSealed(t *testing.T) {
	o := newOffices(t)
	o.store()
	stranger := newKeys(t)
	stranger.Deployment = o.keys.Deployment
	own := o.keys
	o.keys = stranger
	if _, err := o.store().Mint(o.person("agent://a")); err == nil {
		t.Error("minted with the keys of another deployment")
	}
	o.keys = own
	stream, err := o.JS.Stream(t.Context(), subjects.ControlStream)
	if err != nil {
		t.Fatal(err)
	}
	info, err := stream.Info(t.Context(), jetstream.WithSubjectFilter(subjects.KeysAll))
	if err != nil || len(info.State.Subjects) != 1 {
		t.Errorf("keys in the bucket: %v %v", info.State.Subjects, err)
	}
}

func newKeys(t *testing.T) *deployment.Keys {
	t.Helper()
	k, err := deployment.NewKeys("test")
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestCredentialsHaveAnEnd(t *testing.T) {
	o := newOffices(t)
	p := o.person("agent://a")
	p.RenewUntil = o.now.Add(tokenstore.MaxRenewal + time.Hour)
	if _, err := o.store().Issue(t.Context(), p, "operator"); err == nil {
		t.Error("issued for longer than revocations are kept")
	}
}

package tokenstore

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/deployment"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// MaxRenewal is how long after it was issued a credential may be renewed at the most. For so long is remembered what
// was revoked.
const MaxRenewal = 90 * 24 * time.Hour

const (
	// settle is how long a new key is known before it is used: all dispatchers that serve hear of it in milliseconds,
	// and one that lost its server on the way reads everything anew when it is back.
	settle = 5 * time.Second
	// slack is how much longer than its last token a key is kept, for clocks that differ.
	slack = time.Minute
	// lease is for how long a dispatcher believes tokens without having asked again whether more was revoked. What is
	// revoked is refused by all of them a second later, also by one that was stopped and goes on.
	lease = 900 * time.Millisecond
)

// Options are what a [Store] depends on beside the bucket.
type Options struct {
	Now    func() time.Time // bus time
	Logger *slog.Logger     // nil discards
}

// Store is what a deployment knows of tokens, in the bucket "control": keys, revocations, and what was issued. Its
// methods are safe for concurrent use, also by several processes.
type Store struct {
	Options
	js      jetstream.JetStream
	keys    *deployment.Keys
	public  string // of the key that private keys are sealed with
	checker *auth.Verifier

	mu     sync.Mutex
	known  map[string]signingKey // by kid
	synced chan struct{}         // closed when everything was read once
	shown  uint64                // the position in the bucket of the newest entry that is believed
	latest latest

	changed chan struct{} // holds something when more, or less, is revoked
}

// signingKey is a key that tokens are signed with from Since on. From Until on, if that is set, what it has signed
// counts as expired. The private half is sealed with the deployment's curve key.
type signingKey struct {
	Public []byte    `json:"public"`
	Sealed []byte    `json:"sealed"`
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until,omitzero"`
}

// Open binds to the bucket. The first one puts the first key there. Nothing is believed before [Store.Run] has read it.
func Open(ctx context.Context, js jetstream.JetStream, keys *deployment.Keys, o Options) (*Store, error) {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	public, err := keys.XKey.PublicKey()
	if err != nil {
		return nil, fmt.Errorf("authority: %w", err)
	}
	s := &Store{
		Options: o, js: js, keys: keys, public: public, synced: make(chan struct{}), known: map[string]signingKey{},
		changed: make(chan struct{}, 1),
		checker: &auth.Verifier{
			Keys: auth.NewKeyring(keys.Deployment, nil), Revoked: &auth.Revocations{Lease: lease},
		},
	}
	err = timer.Backoff{Pause: 50 * time.Millisecond}.Until(ctx, func(ctx context.Context) (done bool, err error) {
		err = s.first(ctx)
		return !bus.HasErrorCode(err, bus.CodeWrongLast, bus.CodeUnderWay), err // then another one is faster
	})
	if err != nil {
		return nil, fmt.Errorf("authority: %w", err)
	}
	return s, nil
}

// Verifier returns what makes identities of tokens; it hears of revocations while [Store.Run] goes on.
func (s *Store) Verifier() *auth.Verifier { return s.checker }

// Changed holds a value when more, or less, is revoked than before. It has one reader.
func (s *Store) Changed() <-chan struct{} { return s.changed }

// Ready is closed when the store has been read.
func (s *Store) Ready() <-chan struct{} { return s.synced }

// first stores the deployment's first key, where there is none.
func (s *Store) first(ctx context.Context) error {
	stream, err := s.js.Stream(ctx, subjects.ControlStream)
	if err != nil {
		return err
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(subjects.KeysAll))
	if err != nil || len(info.State.Subjects) > 0 {
		return err
	}
	private, err := s.keys.Signing()
	if err != nil {
		return err
	}
	_, key, err := s.seal(private, s.Now())
	if err != nil {
		return err
	}
	subject := subjects.SigningKey(deployment.KeyID(key.Public))
	return s.put(ctx, subject, key, 0, jetstream.WithExpectLastSequencePerSubject(0))
}

func (s *Store) seal(private ed25519.PrivateKey, since time.Time) (kid string, k signingKey, err error) {
	k.Public, k.Since = private.Public().(ed25519.PublicKey), since.UTC()
	k.Sealed, err = s.keys.XKey.Seal(private.Seed(), s.public)
	return deployment.KeyID(k.Public), k, err
}

// forget leaves an entry without a body, which says that it is gone.
func (s *Store) forget(ctx context.Context, subject string) error {
	msg := &nats.Msg{Subject: subject, Header: nats.Header{}}
	msg.Header.Set(jetstream.MsgTTLHeader, strconv.Itoa(int((MaxRenewal+slack)/time.Second)))
	_, err := s.js.PublishMsg(ctx, msg)
	return err
}

// put writes an entry, which is gone after life; 0 is never.
func (s *Store) put(ctx context.Context, subject string, v any, life time.Duration, o ...jetstream.PublishOpt) error {
	data, err := format.Marshal(format.Entry, v)
	if err != nil {
		return err
	}
	msg := &nats.Msg{Subject: subject, Data: data, Header: nats.Header{}}
	if life > 0 {
		msg.Header.Set(jetstream.MsgTTLHeader, strconv.Itoa(int(max(life, time.Second)/time.Second)))
	}
	_, err = s.js.PublishMsg(ctx, msg, o...)
	return err
}

// Mint signs a token with the newest key that is in use.
func (s *Store) Mint(p auth.Principal) (string, error) {
	kid, key, ok := s.current()
	if !ok {
		return "", auth.ErrNotReady
	}
	seed, err := s.keys.XKey.Open(key.Sealed, s.public)
	if err != nil || len(seed) != ed25519.SeedSize {
		return "", errors.Join(fmt.Errorf("key %s cannot be opened with the keys of this deployment", kid), err)
	}
	signer, err := auth.NewSigner(s.keys.Deployment, kid, ed25519.NewKeyFromSeed(seed))
	if err != nil {
		return "", err
	}
	return signer.Mint(p)
}

// current returns the key that tokens are signed with now.
func (s *Store) current() (kid string, key signingKey, ok bool) {
	now := s.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, k := range s.known {
		later := !ok || k.Since.After(key.Since) || k.Since.Equal(key.Since) && id > kid
		if later && !k.Since.After(now) && k.good(now) {
			kid, key, ok = id, k, true
		}
	}
	return kid, key, ok
}

// good reports whether tokens of the key do not count as expired.
func (k signingKey) good(now time.Time) bool { return k.Until.IsZero() || now.Before(k.Until) }

// Rotate makes a new key, which is used once all dispatchers have had the time to hear of it. The former ones stay good
// for [auth.MaxLife], the longest life of a token that they have signed, and such tokens may be renewed for as long
// as any: so nobody has to be there when keys are exchanged. With distrust they are gone at once, because
// somebody else has one of them: then every credential has to be issued anew. While one rotation is under way another
// is not begun: it returns that one.
func (s *Store) Rotate(ctx context.Context, distrust bool) (r envelope.RotateResponse, err error) {
	now := s.Now()
	former := s.snapshot()
	for kid, k := range former {
		if k.Since.After(now) && !distrust {
			return envelope.RotateResponse{KeyID: kid, Since: k.Since, Until: k.Since.Add(auth.MaxLife + slack)}, nil
		}
	}
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return r, err
	}
	r.Since = now.Add(settle).UTC()
	r.Until = r.Since.Add(auth.MaxLife + slack)
	if distrust {
		r.Since, r.Until = now.UTC(), now.UTC()
	}
	kid, key, err := s.seal(private, r.Since)
	if err != nil {
		return r, err
	}
	r.KeyID = kid
	if err := s.put(ctx, subjects.SigningKey(kid), key, 0); err != nil {
		return r, fmt.Errorf("new key: %w", err)
	}
	for kid, k := range former { // only once there is another one
		switch {
		case distrust:
			err = errors.Join(err, s.forget(ctx, subjects.SigningKey(kid)))
		case k.Until.IsZero():
			k.Until = r.Until
			err = errors.Join(err, s.put(ctx, subjects.SigningKey(kid), k, r.Until.Sub(now)+MaxRenewal+slack))
		}
	}
	return r, err
}

func (s *Store) snapshot() map[string]signingKey {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.known)
}

// Issue mints the first token of a family, and remembers it for lists and revocations.
func (s *Store) Issue(ctx context.Context, p auth.Principal, by string) (token string, err error) {
	now := s.Now()
	until := p.Expires
	if p.RenewUntil.After(until) {
		until = p.RenewUntil
	}
	if until.Sub(now) > MaxRenewal {
		return "", fmt.Errorf("a credential may be renewed for %d days at the most", MaxRenewal/(24*time.Hour))
	}
	if token, err = s.Mint(p); err != nil {
		return "", err
	}
	c := envelope.CredentialInfo{
		Tenant: p.Tenant, Actor: p.Actor, Role: string(p.Role), Scopes: p.Scopes, Pool: p.Pool, Run: p.Run, Lane: p.Lane,
		Family: p.Family, Issued: p.Issued.UTC(), Until: until.UTC(), By: by,
	}
	if err := s.put(ctx, subjects.Issued(p.Family), c, until.Sub(now)+slack); err != nil {
		return "", fmt.Errorf("credential: %w", err)
	}
	return token, nil
}

// revoked is an entry by which a family is not believed any more, or with an actor, all that this has by then.
type revoked struct {
	Tenant string    `json:"tenant,omitzero"`
	Actor  string    `json:"actor,omitzero"`
	At     time.Time `json:"at"`
	By     string    `json:"by"`
}

// Revoke ends a family of tokens, and all that were narrowed from it, for good.
func (s *Store) Revoke(ctx context.Context, family, by string) error {
	return s.put(ctx, subjects.Revoked(family), revoked{At: s.Now().UTC(), By: by}, MaxRenewal+slack)
}

// Bar ends all tokens of an actor and of its sub-actors, however they were minted, and returns how many families of
// them are listed. It also revokes each listed family, and with it all tokens that were narrowed from it.
func (s *Store) Bar(ctx context.Context, tenant, actor, by string) (families int, err error) {
	now := s.Now().UTC()
	entry := revoked{Tenant: tenant, Actor: actor, At: now, By: by}
	if err := s.put(ctx, subjects.RevokedActor(tenant, actor), entry, MaxRenewal+slack); err != nil {
		return 0, err
	}
	issued, err := s.Issued(ctx)
	if err != nil {
		return 0, err
	}
	for _, c := range issued {
		of := c.Actor == actor || auth.IsSub(c.Actor, actor)
		if c.Tenant == tenant && of && !c.Issued.After(now) {
			families++
			err = errors.Join(err, s.Revoke(ctx, c.Family, by))
		}
	}
	return families, err
}

// afterBar returns the time to issue p at: if its actor was barred within the second of p.Issued, the next second.
func (s *Store) afterBar(p auth.Principal) time.Time {
	at := s.checker.Revoked.ActorRevokedAt(p.Tenant, p.Actor)
	if p.Issued.After(at) {
		return p.Issued
	}
	return at.Truncate(time.Second).Add(time.Second)
}

// listed returns the entry of an issued family that has not ended. ok is false for other families: those of narrowed
// tokens, and those that were minted offline.
func (s *Store) listed(ctx context.Context, family string) (c envelope.CredentialInfo, ok bool, err error) {
	err = s.read(ctx, []string{subjects.Issued(family)}, func(msg jetstream.Msg) {
		ok = format.Unmarshal(format.Entry, msg.Data(), &c) == nil // an entry that a newer build wrote is not readable
	})
	return c, ok, err
}

// Issued returns the credentials that were issued and may still be used, the newest first.
func (s *Store) Issued(ctx context.Context) (all []envelope.CredentialInfo, err error) {
	err = s.read(ctx, []string{subjects.IssuedAll}, func(msg jetstream.Msg) {
		var c envelope.CredentialInfo
		if err := format.Unmarshal(format.Entry, msg.Data(), &c); err != nil {
			s.Logger.Warn("entry left out", "subject", msg.Subject(), "err", err)
			return
		}
		c.Revoked = s.checker.Revoked.Family(c.Family)
		all = append(all, c)
	})
	slices.SortFunc(all, func(a, b envelope.CredentialInfo) int { return b.Issued.Compare(a.Issued) })
	return all, err
}

package tokenstore

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
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
	"github.com/seed-018f16cc/toolbus/internal/policy/replica"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// MaxRenewal is the longest time after its issue for which a credential can be renewed. Revocations are kept slightly
// longer.
const MaxRenewal = 90 * 24 * time.Hour

const (
	// settle is the delay before a new key is used. Running dispatchers receive the key within milliseconds. One that lost
	// its connection meanwhile reads all keys again when it has reconnected.
	settle = 5 * time.Second
	// slack is how much longer than necessary keys and revocations are kept, because clocks differ.
	slack = time.Minute
)

// Options configure a [Store].
type Options struct {
	Now    func() time.Time // bus time
	Logger *slog.Logger     // nil discards logs
	Copies *replica.Copies  // of keys and revocations; nil keeps none
}

// Store reads and writes the bucket "control": signing keys, revocations and the list of issued credentials. Its
// methods are safe for concurrent use. Several processes may use the same bucket.
type Store struct {
	Options
	js      jetstream.JetStream
	bucket  *replica.Bucket
	keys    *deployment.Keys
	public  string // the public curve key that private signing keys are encrypted with
	secret  []byte // of the deployment
	checker *auth.Verifier

	mu     sync.Mutex
	known  map[string]signingKey // by kid
	synced chan struct{}         // closed when the bucket was read once
	shown  uint64                // the position of the newest entry that the verifier has
	made   time.Time             // when the bucket was made that this entry is of
	latest latest

	distrusted time.Time // see Distrusted

	remade  chan struct{} // holds a value when the bucket is not the one that was read
	changed chan struct{} // holds a value when the revocations have changed, or a key is not trusted any more
}

// signingKey is a key that signs tokens from Since on. From Until on, if that is set, tokens that it signed count as
// expired. Sealed is the private half, encrypted with the deployment's curve key.
type signingKey struct {
	Public []byte    `json:"public"`
	Sealed []byte    `json:"sealed"`
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until,omitzero"`
}

// Open returns a Store of the bucket, and stores the first signing key if the bucket has none. The verifier of the
// store accepts no token before [Store.Run] has read the bucket.
func Open(ctx context.Context, js jetstream.JetStream, keys *deployment.Keys, o Options) (*Store, error) {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	public, err := keys.XKey.PublicKey()
	secret, err2 := keys.XKey.Seed()
	if err := errors.Join(err, err2); err != nil {
		return nil, fmt.Errorf("authority: %w", err)
	}
	s := &Store{
		Options: o, js: js, keys: keys, public: public, secret: secret, synced: make(chan struct{}),
		known: map[string]signingKey{}, changed: make(chan struct{}, 1), remade: make(chan struct{}, 1),
		checker: &auth.Verifier{
			Keys: auth.NewKeyring(keys.Deployment, nil), Revoked: &auth.Revocations{Lease: timer.LeaseTime},
		},
	}
	if s.bucket, err = replica.OpenBucket(ctx, js, subjects.ControlStream, o.Copies); err != nil {
		return nil, fmt.Errorf("authority: %w", err)
	}
	err = tries().Until(ctx, func(ctx context.Context) (done bool, err error) {
		err = s.first(ctx)
		return !bus.HasErrorCode(err, bus.CodeWrongLast, bus.CodeUnderWay), err // or another process stored the first key
	})
	if err != nil {
		return nil, fmt.Errorf("authority: %w", err)
	}
	return s, nil
}

// Verifier returns the verifier that uses the keys and revocations of the store. [Store.Run] keeps them up to date.
func (s *Store) Verifier() *auth.Verifier { return s.checker }

// Changed returns a channel that receives a value when the revocations have changed, or a key is not trusted any more.
// It is for one reader.
func (s *Store) Changed() <-chan struct{} { return s.changed }

// Distrusted returns when this store last heard of the deletion of a key whose tokens had not expired; zero if never.
func (s *Store) Distrusted() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.distrusted
}

// Ready returns a channel that is closed when Run has read the bucket for the first time.
func (s *Store) Ready() <-chan struct{} { return s.synced }

// first stores the first signing key of the deployment if neither the bucket nor the copies have a key. A key that the
// server cannot read counts.
func (s *Store) first(ctx context.Context) error {
	had, err := s.bucket.Had(ctx, subjects.KeysAll)
	if err != nil || had {
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
	return s.put(ctx, subjects.SigningKey(deployment.KeyID(key.Public)), key, 0, true)
}

func (s *Store) seal(private ed25519.PrivateKey, since time.Time) (kid string, k signingKey, err error) {
	k.Public, k.Since = private.Public().(ed25519.PublicKey), since.UTC()
	k.Sealed, err = s.keys.XKey.Seal(private.Seed(), s.public)
	return deployment.KeyID(k.Public), k, err
}

// forget deletes an entry: it writes an empty one in its place, which followers read as a deletion.
func (s *Store) forget(ctx context.Context, subject string) error {
	return s.put(ctx, subject, nil, MaxRenewal+slack, false)
}

// put writes an entry and its copy, which the server removes after life; 0 means never. With create, it writes nothing
// if there is an entry: the error then has the code [bus.CodeWrongLast]. It writes nothing after the deadline of ctx.
func (s *Store) put(ctx context.Context, subject string, v any, life time.Duration, create bool) error {
	msg, err := message(subject, v, life)
	if err != nil {
		return err
	}
	if create {
		return s.bucket.Create(ctx, msg)
	}
	return tries().Until(ctx, func(ctx context.Context) (bool, error) {
		err := s.bucket.Overwrite(ctx, msg)
		return !bus.HasErrorCode(err, bus.CodeWrongLast, bus.CodeUnderWay), err
	})
}

// message returns the message of an entry that the server removes after life. It is empty if v is nil.
func message(subject string, v any, life time.Duration) (msg *nats.Msg, err error) {
	msg = &nats.Msg{Subject: subject, Header: nats.Header{}}
	if v != nil {
		msg.Data, err = format.Marshal(format.Entry, v)
	}
	if life > 0 {
		msg.Header.Set(jetstream.MsgTTLHeader, strconv.Itoa(int(max(life, time.Second)/time.Second)))
	}
	return msg, err
}

// Mint returns a token with the content p, signed with the newest key in use. It returns [auth.ErrNotReady] if no key
// is known yet.
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

// current returns the key that signs tokens now.
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

// good reports whether Until of the key has not been reached.
func (k signingKey) good(now time.Time) bool { return k.Until.IsZero() || now.Before(k.Until) }

// Issue returns the first token of a credential, and adds the credential to the list of issued ones.
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
		Tenant: p.Tenant, Actor: p.Actor, Role: string(p.Role), Scopes: p.Scopes, RoleIDs: p.RoleIDs, Pool: p.Pool,
		Run: p.Run, Lane: p.Lane, Family: p.Family, Issued: p.Issued.UTC(), Until: until.UTC(), By: by,
	}
	msg, err := message(subjects.Issued(p.Family), c, until.Sub(now)+slack)
	if err != nil {
		return "", err
	}
	err = tries().Until(ctx, func(ctx context.Context) (bool, error) {
		_, err := s.js.PublishMsg(ctx, msg, jetstream.WithExpectLastSequencePerSubject(0))
		if bus.HasErrorCode(err, bus.CodeWrongLast) { // a copy of the request has listed it
			err = nil
		}
		return !bus.HasErrorCode(err, bus.CodeUnderWay), err
	})
	if err != nil {
		return "", fmt.Errorf("credential: %w", err)
	}
	return token, nil
}

// revoked is an entry that revokes a family or, with an actor, all tokens of this actor that were issued until then.
type revoked struct {
	Tenant string    `json:"tenant,omitzero"`
	Actor  string    `json:"actor,omitzero"`
	At     time.Time `json:"at"`
	By     string    `json:"by"`
}

// Revoke revokes a family of tokens, and all tokens that were narrowed from it.
func (s *Store) Revoke(ctx context.Context, family, by string) error {
	return s.put(ctx, subjects.Revoked(family), revoked{At: s.Now().UTC(), By: by}, MaxRenewal+slack, false)
}

// Bar revokes all tokens of an actor and of its sub-actors that were issued until now, whether listed or not. It also
// revokes each of their listed families, and with it all tokens that were narrowed from it. It counts those families.
func (s *Store) Bar(ctx context.Context, tenant, actor, by string) (a envelope.RevokeResponse, err error) {
	now := s.Now().UTC()
	entry := revoked{Tenant: tenant, Actor: actor, At: now, By: by}
	if err := s.put(ctx, subjects.RevokedActor(tenant, actor), entry, MaxRenewal+slack, false); err != nil {
		return a, err
	}
	issued, err := s.Issued(ctx)
	if err != nil {
		return a, err
	}
	for _, c := range issued {
		of := c.Actor == actor || auth.IsSub(c.Actor, actor)
		if c.Tenant == tenant && of && !c.Issued.After(now) {
			count(&a, c.Revoked)
			err = errors.Join(err, s.Revoke(ctx, c.Family, by))
		}
	}
	return a, err
}

// afterBar returns the time of issue of p. It is p.Issued, or the next second if all tokens of its actor were revoked
// in the second of p.Issued.
func (s *Store) afterBar(p auth.Principal) time.Time {
	at := s.checker.Revoked.ActorRevokedAt(p.Tenant, p.Actor)
	if p.Issued.After(at) {
		return p.Issued
	}
	return at.Truncate(time.Second).Add(time.Second)
}

// listed returns the entry of an issued family that has not expired. ok is false for families that are not listed:
// those of narrowed tokens, and those that were issued offline.
func (s *Store) listed(ctx context.Context, family string) (c envelope.CredentialInfo, ok bool, err error) {
	stored, err := s.read(ctx, subjects.Issued(family))
	for _, m := range stored {
		ok = format.Unmarshal(format.Entry, m.Data(), &c) == nil // an entry that a newer build wrote may not be readable
	}
	return c, ok, err
}

// Issued returns the issued credentials that have not expired, including revoked ones, the newest first.
func (s *Store) Issued(ctx context.Context) (all []envelope.CredentialInfo, err error) {
	stored, err := s.read(ctx, subjects.IssuedAll)
	oldest := s.oldestKey()
	for _, m := range stored {
		var c envelope.CredentialInfo
		if err := format.Unmarshal(format.Entry, m.Data(), &c); err != nil {
			s.Logger.Warn("entry left out", "subject", m.Subject(), "err", err)
			continue
		}
		c.Revoked, c.Distrusted = s.checker.Revoked.Family(c.Family), c.Issued.Before(oldest)
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b envelope.CredentialInfo) int { return b.Issued.Compare(a.Issued) })
	return all, err
}

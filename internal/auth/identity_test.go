package auth

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

var t0 = time.Unix(1_795_000_000, 0)

func key(seed byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
}

func public(seed byte) ed25519.PublicKey { return key(seed).Public().(ed25519.PublicKey) }

func signer(tb testing.TB, deployment, kid string, seed byte) *Signer {
	tb.Helper()
	s, err := NewSigner(deployment, kid, key(seed))
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func agent() Principal {
	return Principal{
		Tenant: "acme", Actor: "agent://a", Role: Agent, Scopes: []string{"pay", "read"}, Lane: "fast",
		ID: NewID(), Family: NewID(), Issued: t0, Expires: t0.Add(Life), RenewUntil: t0.Add(24 * time.Hour), KeyID: "k1",
	}
}

func mint(tb testing.TB, s *Signer, p Principal) string {
	tb.Helper()
	token, err := s.Mint(p)
	if err != nil {
		tb.Fatal(err)
	}
	return token
}

func checker() *Verifier {
	c := &Verifier{Keys: NewKeyring("prod", map[string]Key{"k1": {Public: public(1)}}), Revoked: &Revocations{}}
	c.Revoked.Replace(nil, nil)
	return c
}

func TestTokenSaysWhoItIs(t *testing.T) {
	p := agent()
	p.Chain, p.Run = []string{NewID()}, "run-7"
	token := mint(t, signer(t, "prod", "k1", 1), p)
	c := checker()
	for range 2 { // verified, and remembered
		got, err := c.Verify(token, t0.Add(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(p, *got); diff != "" {
			t.Error(diff)
		}
	}
	got, err := Inspect(token)
	if diff := cmp.Diff(p, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if len(token) > MaxToken || p.User() != "agent.acme.agent_3a_2f_2fa."+p.Family {
		t.Errorf("%d bytes, %s", len(token), p.User())
	}
}

func TestTokensThatAreNotBelieved(t *testing.T) {
	good := signer(t, "prod", "k1", 1)
	revoked, child, barred := agent(), agent(), agent()
	child.Chain = []string{revoked.Family}
	barred.Actor = "agent://gone"
	later := barred
	later.Issued = t0.Add(2 * time.Second)
	notYet := agent()
	notYet.Issued = t0.Add(time.Minute)
	c := checker()
	c.Revoked.Replace(map[string]bool{revoked.Family: true},
		map[[2]string]time.Time{{"acme", "agent://gone"}: t0.Add(time.Second)})
	head, rest, _ := strings.Cut(mint(t, good, agent()), ".")
	body, sig, _ := strings.Cut(rest, ".")
	encode := base64.RawURLEncoding.EncodeToString
	for name, test := range map[string]struct {
		token string
		at    time.Duration
		want  error
	}{
		"good":              {mint(t, good, agent()), 0, nil},
		"expired":           {mint(t, good, agent()), Life, ErrExpired},
		"not yet":           {mint(t, good, notYet), 0, ErrNotYet},
		"nearly":            {mint(t, good, notYet), 30 * time.Second, nil},
		"another key":       {mint(t, signer(t, "prod", "k2", 1), agent()), 0, ErrUnknownKey},
		"a false key":       {mint(t, signer(t, "prod", "k1", 2), agent()), 0, ErrSignature},
		"another bus":       {mint(t, signer(t, "test", "k1", 1), agent()), 0, ErrElsewhere},
		"revoked":           {mint(t, good, revoked), 0, ErrRevoked},
		"expired, revoked":  {mint(t, good, revoked), Life, ErrRevoked},
		"parent revoked":    {mint(t, good, child), 0, ErrRevoked},
		"actor barred":      {mint(t, good, barred), 0, ErrRevoked},
		"issued since":      {mint(t, good, later), 3 * time.Second, nil},
		"nothing":           {"", 0, ErrMalformed},
		"no signature":      {head + "." + body + ".", 0, ErrSignature},
		"two parts":         {head + "." + body, 0, ErrMalformed},
		"other claims":      {head + "." + encode([]byte(`{"sub":"x"}`)) + "." + sig, 0, ErrSignature},
		"algorithm none":    {encode([]byte(`{"alg":"none","kid":"k1"}`)) + "." + body + ".", 0, ErrMalformed},
		"algorithm HS256":   {encode([]byte(`{"alg":"HS256","kid":"k1"}`)) + "." + body + "." + sig, 0, ErrMalformed},
		"key in the header": {encode([]byte(`{"alg":"EdDSA","jwk":{}}`)) + "." + body + "." + sig, 0, ErrMalformed},
		"long":              {strings.Repeat("a", MaxToken+1), 0, ErrMalformed},
	} {
		if p, err := c.Verify(test.token, t0.Add(test.at)); !errors.Is(err, test.want) || (err == nil) != (p != nil) &&
			!errors.Is(err, ErrExpired) {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
	}
}

// A key that is taken away takes its tokens with it, also those that were verified; nothing is believed before it is
// known what was revoked.
func TestKeysAndRevocationsAreLive(t *testing.T) {
	token := mint(t, signer(t, "prod", "k1", 1), agent())
	c := &Verifier{Keys: NewKeyring("prod", map[string]Key{"k1": {Public: public(1)}}), Revoked: &Revocations{}}
	is := func(want error) {
		t.Helper()
		if _, err := c.Verify(token, t0); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	is(ErrNotReady)
	c.Revoked.Replace(nil, nil)
	is(nil)
	p, _ := Inspect(token)
	c.Revoked.Replace(map[string]bool{p.Family: true}, nil)
	is(ErrRevoked)
	c.Revoked.Replace(nil, nil)
	c.Keys.Replace(map[string]Key{"k1": {Public: public(1), Until: t0}})
	is(ErrExpired)
	if p, _ := c.Verify(token, t0); p == nil {
		t.Error("a token of a former key cannot be renewed")
	}
	c.Keys.Replace(map[string]Key{"k2": {Public: public(2)}})
	is(ErrUnknownKey)
	var empty Keyring
	if _, err := empty.Verify(token, t0); !errors.Is(err, ErrUnknownKey) {
		t.Error(err)
	}
}

// Only whoever has heard of everything of late says that there is no such key.
func TestKeyOfWhomNothingWasHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := checker()
		c.Revoked = &Revocations{Lease: time.Second}
		token := mint(t, signer(t, "prod", "k2", 2), agent())
		is := func(want error) {
			t.Helper()
			if _, err := c.Verify(token, t0); !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		}
		is(ErrNotReady)
		c.Revoked.Replace(nil, nil)
		c.Revoked.MarkFresh(time.Now())
		is(ErrUnknownKey)
		<-time.After(2 * time.Second)
		is(ErrNotReady)
		go func() { // it hears of it while the token waits
			<-time.After(moment / 2)
			c.Keys.Replace(map[string]Key{"k1": {Public: public(1)}, "k2": {Public: public(2)}})
			c.Revoked.MarkFresh(time.Now())
		}()
		is(nil)
		c.Revoked.MarkStale()
		is(ErrNotReady)
	})
}

func TestRenewed(t *testing.T) {
	p := agent()
	for at, want := range map[time.Duration]error{
		0: nil, 23*time.Hour + 50*time.Minute: nil, 24 * time.Hour: ErrNotRenewable,
	} {
		now := t0.Add(at)
		r, err := p.Renewed(now)
		if !errors.Is(err, want) {
			t.Fatalf("%s: %v", at, err)
		}
		if err == nil && (r.Family != p.Family || r.ID == p.ID || r.Expires.After(p.RenewUntil) || !r.Expires.After(now)) {
			t.Errorf("%s: %+v", at, r)
		}
	}
	p.RenewUntil = time.Time{}
	if _, err := p.Renewed(t0); !errors.Is(err, ErrNotRenewable) {
		t.Error(err)
	}
}

func TestNarrow(t *testing.T) {
	p := agent()
	door := agent()
	door.Role, door.Scopes = Gateway, []string{ScopeAll}
	for name, test := range map[string]struct {
		from Principal
		less Narrowing
		ok   bool
	}{
		"fewer":         {p, Narrowing{Scopes: []string{"pay"}}, true},
		"none":          {p, Narrowing{}, true},
		"same":          {p, Narrowing{Scopes: []string{"read", "pay", "pay"}}, true},
		"other scope":   {p, Narrowing{Scopes: []string{"admin"}}, false},
		"all":           {p, Narrowing{Scopes: []string{ScopeAll}}, false},
		"of all":        {door, Narrowing{Scopes: []string{"anything"}}, true},
		"child":         {p, Narrowing{Actor: "agent://a/sub"}, true},
		"other actor":   {p, Narrowing{Actor: "agent://b"}, false},
		"longer name":   {p, Narrowing{Actor: "agent://ab"}, false},
		"a run":         {p, Narrowing{Run: "r"}, true},
		"other lane":    {p, Narrowing{Lane: "slow"}, false},
		"the lane":      {p, Narrowing{Lane: "fast"}, true},
		"child of door": {door, Narrowing{Actor: "agent://a/x"}, false},
		"the door":      {door, Narrowing{Actor: "agent://a"}, true},
		"bad scope":     {door, Narrowing{Scopes: []string{"a b"}}, false},
	} {
		child, err := test.from.Narrow(test.less, t0)
		if (err == nil) != test.ok {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil && (child.Role != test.from.Role || child.Origin != test.from.Role) {
			t.Errorf("%s: %s of %s", name, child.Role, child.Origin)
		}
	}
	root := p.Root()
	for range maxChain {
		var err error
		if p, err = p.Narrow(Narrowing{}, t0); err != nil {
			t.Fatal(err)
		}
	}
	if root == p.Family || p.Root() != root {
		t.Errorf("the roots are %q and %q", root, p.Root())
	}
	if _, err := p.Narrow(Narrowing{}, t0); err == nil {
		t.Error("narrowed without end")
	}
}

// Whatever is asked for, a narrowed token can do nothing that the one before could not, and for no longer.
func TestNarrowNeverWidens(t *testing.T) {
	pick := func(of ...string) string { return of[rand.N(len(of))] }
	for range 5000 {
		p := agent()
		p.Role = Role(pick("agent", "door", "auditor", "operator"))
		p.Run, p.Lane = pick("", "r1", "r2"), pick("", "l1")
		if p.Role == Agent && rand.N(2) == 0 {
			p.RoleIDs = []string{"reader", "writer"}
			p.Family = NewFamily(p.RoleIDs)
		}
		less := Narrowing{
			Actor: pick("", p.Actor, p.Actor+"/x", "agent://b"), Run: pick("", "r1", "r2"), Lane: pick("", "l1", "l2"),
			Life: time.Duration(rand.N(int64(48 * time.Hour))),
		}
		for range rand.N(3) {
			less.Scopes = append(less.Scopes, pick("pay", "read", "admin", "*"))
		}
		if rand.N(2) == 0 {
			less.RoleIDs = append(less.RoleIDs, pick("reader", "writer", "boss"))
		}
		child, err := p.Narrow(less, t0)
		if err != nil {
			continue
		}
		if slices.ContainsFunc(child.Carries("worker"), func(r string) bool {
			return !slices.Contains(p.Carries("worker"), r)
		}) {
			t.Fatalf("%q of %q", child.Carries("worker"), p.Carries("worker"))
		}
		wider := slices.ContainsFunc(child.Scopes, func(s string) bool { return !p.Has(s) }) ||
			child.Tenant != p.Tenant || child.Expires.After(p.Expires) || child.RenewUntil.After(p.RenewUntil) ||
			child.Actor != p.Actor && !strings.HasPrefix(child.Actor, p.Actor+"/") ||
			p.Run != "" && child.Run != p.Run || p.Lane != "" && child.Lane != p.Lane ||
			child.Role != p.Role || child.Actor != p.Actor && p.Role != Agent ||
			!slices.Contains(child.Chain, p.Family) || child.Family == p.Family
		if wider {
			t.Fatalf("%+v of %+v", child, p)
		}
	}
}

// Only a slash behind a name begins a sub-actor, and who is one is barred with it.
func TestSubActors(t *testing.T) {
	for _, test := range []struct {
		actor, of string
		is        bool
	}{
		{"agent://a/b", "agent://a", true}, {"agent://a/b/c", "agent://a", true}, {"agent://a/b/c", "agent://a/b", true},
		{"agent://a", "agent://a", false}, {"agent://ab", "agent://a", false}, {"agent://a", "agent://a/b", false},
		{"agent://a", "agent:", false}, {"agent://a", "agent:/", false}, {"agent://a", "", false}, {"a/b", "a", true},
	} {
		if got := IsSub(test.actor, test.of); got != test.is {
			t.Errorf("IsSub(%q, %q) = %t", test.actor, test.of, got)
		}
		p, r := agent(), Revocations{}
		p.Actor = test.actor
		r.Replace(nil, map[[2]string]time.Time{{p.Tenant, test.of}: t0, {"other", test.actor}: t0})
		if barred := r.Revoked(&p); barred != (test.is || test.actor == test.of) {
			t.Errorf("%s is barred with %s: %t", test.actor, test.of, barred)
		}
		if p.Issued = t0.Add(time.Second); r.Revoked(&p) {
			t.Errorf("a token of %s is barred that was issued afterwards", test.actor)
		}
	}
}

// A bound token covers what it may have called itself, and is answered below its family, also when it is renewed.
func TestBound(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Principal)
		bound  bool
	}{
		"scopes":     {func(*Principal) {}, true},
		"all":        {func(p *Principal) { p.Scopes = []string{ScopeAll} }, false},
		"none":       {func(p *Principal) { p.Scopes = nil }, false},
		"a run":      {func(p *Principal) { p.Scopes, p.Run = nil, "r0" }, true},
		"a lane":     {func(p *Principal) { p.Scopes, p.Lane = nil, "l0" }, true},
		"narrowed":   {func(p *Principal) { p.Scopes, p.Chain = nil, []string{"parent"} }, true},
		"a door":     {func(p *Principal) { p.Role = Gateway }, false},
		"an auditor": {func(p *Principal) { p.Role, p.Chain = Auditor, []string{"parent"} }, false},
	} {
		p := agent()
		p.Lane = ""
		test.change(&p)
		renewed, err := p.Renewed(t0)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range []Principal{p, renewed} {
			answers, inbox := "tb.ans.acme.agent_3a_2f_2fa.", "_INBOX.acme.agent_3a_2f_2fa"
			if test.bound {
				answers, inbox = answers+p.Family+".", inbox+"."+p.Family
			}
			if p.Bound() != test.bound || p.Answers() != answers || p.Inbox() != inbox {
				t.Errorf("%s: %t, %s, %s", name, p.Bound(), p.Answers(), p.Inbox())
			}
		}
	}
	p := agent()
	p.Run, p.Lane = "r0", "l0"
	carrying := p
	carrying.RoleIDs, carrying.Family = []string{"reader"}, NewFamily([]string{"reader"})
	for name, covers := range map[string]bool{
		"its own": p.Covers("", "r0", "l0", []string{"pay"}, true), "without scopes": p.Covers("", "r0", "l0", nil, true),
		"unknown scopes": !p.Covers("", "r0", "l0", nil, false), "another run": !p.Covers("", "r1", "l0", nil, true),
		"no run": !p.Covers("", "", "l0", nil, true), "another lane": !p.Covers("", "r0", "", nil, true),
		"any role": p.Covers("reader", "r0", "l0", nil, true),
		"its role": carrying.Covers("reader", "r0", "l0", nil, true), "no role": carrying.Covers("", "r0", "l0", nil, true),
		"another role":  !carrying.Covers("writer", "r0", "l0", nil, true),
		"another scope": !p.Covers("", "r0", "l0", []string{"pay", "admin"}, true),
	} {
		if !covers {
			t.Errorf("%s", name)
		}
	}
}

func TestNobody(t *testing.T) {
	for name, spoil := range map[string]func(*Principal){
		"role":           func(p *Principal) { p.Role = "root" },
		"tenant":         func(p *Principal) { p.Tenant = "" },
		"long tenant":    func(p *Principal) { p.Tenant = strings.Repeat("x", 101) },
		"long actor":     func(p *Principal) { p.Actor = strings.Repeat("/", 40) },
		"pool":           func(p *Principal) { p.Pool = "default" },
		"no pool":        func(p *Principal) { p.Role = Executor },
		"many scopes":    func(p *Principal) { p.Scopes = make([]string, MaxScopes+1) },
		"empty scope":    func(p *Principal) { p.Scopes = []string{""} },
		"long run":       func(p *Principal) { p.Run = strings.Repeat("r", 300) },
		"no id":          func(p *Principal) { p.ID = "" },
		"family":         func(p *Principal) { p.Family = "a.b" },
		"chain":          func(p *Principal) { p.Chain = []string{"*"} },
		"too long":       func(p *Principal) { p.Chain = make([]string, maxChain+1) },
		"too many bytes": func(p *Principal) { p.Scopes = scopes(30) },
	} {
		p := agent()
		spoil(&p)
		if token, err := signer(t, "prod", "k1", 1).Mint(p); err == nil {
			t.Errorf("%s: minted %d bytes", name, len(token))
		}
	}
	if _, err := Inspect("a.b.c"); !errors.Is(err, ErrMalformed) {
		t.Error(err)
	}
	if _, err := NewSigner("prod", "k1", nil); err == nil {
		t.Error("a signer without a key")
	}
}

func scopes(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprint(i, strings.Repeat("s", 200)))
	}
	return all
}

func TestSpeaker(t *testing.T) {
	p := agent()
	for user, want := range map[string]bool{
		p.User():                       true,
		"door.acme.door_3a_2f_2f1.abc": true,
		"door.other.door.abc":          false,
		"door.acm.door.abc":            false,
		"agent.acme.agent_3a_2f_2fb.a": false,
		"operator.acme.op.abc":         false,
		"":                             false,
	} {
		if p.MayUseConnectionOf(user) != want {
			t.Errorf("%q: %v", user, !want)
		}
	}
}

// What is remembered is bounded, and used side by side.
func TestCheckerIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := checker(), signer(t, "prod", "k1", 1)
		tokens := make([]string, 16)
		for i := range tokens {
			p := agent()
			p.ID = fmt.Sprint("t", i)
			tokens[i] = mint(t, s, p)
		}
		for i := range 4 {
			go func() {
				for n := range 2000 {
					if _, err := c.Verify(tokens[(n*7+i)%len(tokens)], t0); err != nil {
						t.Error(err)
					}
				}
			}()
		}
		synctest.Wait()
		p := agent()
		for i := range 3 * maxCached {
			c.remember([32]byte{byte(i), byte(i >> 8), byte(i >> 16)}, &p)
		}
		if n := len(c.young) + len(c.old); n > 2*maxCached {
			t.Errorf("%d tokens are remembered", n)
		}
	})
}

// Whatever a token is, only one that the key has signed is believed.
func FuzzCheck(f *testing.F) {
	s, p := signer(f, "prod", "k1", 1), agent()
	p.ID, p.Family = "id", "family" // the same for all who look for others
	genuine := mint(f, s, p)
	f.Add(genuine)
	f.Add("")
	f.Add("..")
	f.Add(mint(f, signer(f, "prod", "k1", 2), agent()))
	f.Add(strings.ToUpper(genuine))
	f.Add(`{"payload":"","protected":"","signature":""}`)
	f.Fuzz(func(t *testing.T, token string) {
		p, err := checker().Verify(token, t0)
		if err == nil && (p == nil || p.Check() != nil) {
			t.Errorf("%q is nobody", token)
		}
		// Base64 of Ed25519 leaves no bits over, but the claims may be cut differently; only signed bytes are believed.
		if err == nil && token[:strings.LastIndexByte(token, '.')] != genuine[:strings.LastIndexByte(genuine, '.')] {
			t.Errorf("%q is believed", token)
		}
		_, _ = Inspect(token)
	})
}

func BenchmarkCheck(b *testing.B) {
	token := mint(b, signer(b, "prod", "k1", 1), agent())
	for name, fresh := range map[string]bool{"cached": false, "fresh": true} {
		b.Run(name, func(b *testing.B) {
			c := checker()
			b.ReportAllocs()
			for b.Loop() {
				if fresh {
					c = checker()
				}
				if _, err := c.Verify(token, t0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// What was revoked lately is told apart from what was long ago: connections of the former are still to be closed.
func TestRevokedLately(t *testing.T) {
	r := &Revocations{}
	p := agent()
	if r.Revoked(&p) || r.Family(p.Family) {
		t.Error("revoked before anything is known")
	}
	barred := [2]string{p.Tenant, p.Actor}
	r.Replace(map[string]bool{p.Family: true},
		map[[2]string]time.Time{barred: p.Issued, {"other", "a"}: p.Issued.Add(-time.Hour)})
	if !r.Revoked(&p) || !r.Family(p.Family) || r.Family("other") {
		t.Error("a revoked family is not")
	}
	if late := r.ActorsRevokedSince(p.Issued.Add(-time.Minute)); len(late) != 1 || !late[barred].Equal(p.Issued) {
		t.Errorf("barred lately: %v", late)
	}
}

// A context carries who asks, where anybody is asked for tokens.
func TestContext(t *testing.T) {
	p := agent()
	if FromContext(NewContext(t.Context(), &p)) != &p || FromContext(t.Context()) != nil {
		t.Error("another one")
	}
}

// Ids are words of subjects and keys: what NewID makes, and nothing that would be more than one of those.
func TestIDs(t *testing.T) {
	for id, want := range map[string]bool{NewID(): true, "": false, "a.b": false, "a b": false, "*": false,
		strings.Repeat("a", maxText+1): false} {
		if ValidID(id) != want {
			t.Errorf("%q: %t", id, !want)
		}
	}
}

// What was proven to be all counts for the lease. A token waits a moment for the next proof, and is not believed
// without one; that it was revoked is said all the same.
func TestLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		token := mint(t, signer(t, "prod", "k1", 1), agent())
		r := &Revocations{Lease: time.Second}
		c := &Verifier{Keys: NewKeyring("prod", map[string]Key{"k1": {Public: public(1)}}), Revoked: r}
		is := func(want error) {
			t.Helper()
			if _, err := c.Verify(token, t0); !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		}
		r.Replace(nil, nil)
		is(ErrNotReady)
		r.MarkFresh(time.Now())
		is(nil)
		<-time.After(999 * time.Millisecond)
		is(nil)
		<-time.After(time.Second)
		is(ErrNotReady)
		go func() {
			<-time.After(moment / 2)
			r.MarkFresh(time.Now())
		}()
		is(nil)
		p, _ := Inspect(token)
		r.Replace(map[string]bool{p.Family: true}, nil)
		<-time.After(time.Hour)
		is(ErrRevoked)
	})
}

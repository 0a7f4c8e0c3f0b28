package dispatcher_test

import (
	"bytes"
	"crypto/ed25519"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// guarded lets a world ask for tokens, and returns what mints them.
func guarded(w *world) *auth.Signer {
	w.t.Helper()
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize))
	keys := map[string]auth.Key{"k": {Public: key.Public().(ed25519.PublicKey)}}
	w.d.Tokens = &auth.Verifier{Keys: auth.NewKeyring("test", keys), Revoked: &auth.Revocations{}}
	w.d.Tokens.Revoked.Replace(nil, nil)
	s, err := auth.NewSigner("test", "k", key)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func someAgent() auth.Principal {
	now := time.Now()
	return auth.Principal{
		Tenant: "t", Actor: "agent", Role: auth.Agent, Scopes: []string{"say", "write"},
		ID: auth.NewID(), Family: auth.NewID(), Issued: now, Expires: now.Add(time.Minute),
	}
}

func mint(w *world, s *auth.Signer, p auth.Principal) string {
	w.t.Helper()
	token, err := s.Mint(p)
	if err != nil {
		w.t.Fatal(err)
	}
	return token
}

// A request is admitted for what its token says, and for nothing else.
func TestCredentials(t *testing.T) {
	type change func(*auth.Principal)
	for name, c := range map[string]struct {
		edit   change
		claims string // as context.scopes
		want   envelope.Code
	}{
		"agent":           {nil, "", ""},
		"scopes":          {nil, `["say"]`, ""},
		"operator":        {func(p *auth.Principal) { p.Role = auth.Operator }, "", envelope.CodeForbidden},
		"other actor":     {func(p *auth.Principal) { p.Actor = "other" }, "", envelope.CodeIdentity},
		"other tenant":    {func(p *auth.Principal) { p.Tenant = "u" }, "", envelope.CodeIdentity},
		"more scopes":     {nil, `["say","admin"]`, envelope.CodeScope},
		"needs a scope":   {func(p *auth.Principal) { p.Scopes = []string{"write"} }, "", envelope.CodeScope},
		"all scopes":      {func(p *auth.Principal) { p.Scopes = []string{"*"} }, `["say","admin"]`, ""},
		"for a run":       {func(p *auth.Principal) { p.Run = "r" }, "", ""},
		"for a lane":      {func(p *auth.Principal) { p.Lane = "l" }, "", ""},
		"another run":     {func(p *auth.Principal) { p.Run = "r" }, `["say"],"run_id":"s"`, envelope.CodeScope},
		"another lane":    {func(p *auth.Principal) { p.Lane = "l" }, `["say"],"lane_id":"k"`, envelope.CodeScope},
		"auditor":         {func(p *auth.Principal) { p.Role = auth.Auditor }, "", envelope.CodeForbidden},
		"a door's own":    {func(p *auth.Principal) { p.Role = auth.Gateway }, "", envelope.CodeForbidden},
		"expired":         {func(p *auth.Principal) { p.Expires = p.Issued }, "", envelope.CodeExpired},
		"revoked":         {func(p *auth.Principal) { p.Family = "bad" }, "", envelope.CodeRevoked},
		"parent revoked":  {func(p *auth.Principal) { p.Chain = []string{"bad"} }, "", envelope.CodeRevoked},
		"from the future": {func(p *auth.Principal) { p.Issued = p.Issued.Add(time.Hour) }, "", envelope.CodeToken},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, call.Pure, func(t *testing.T, w *world) {
				s := guarded(w)
				w.begin("r")
				w.d.Tokens.Revoked.Replace(map[string]bool{"bad": true}, nil)
				w.manifest.Security.RequiredScopes = []string{"say"}
				p := someAgent()
				if c.edit != nil {
					c.edit(&p)
				}
				edit := []string{}
				if c.claims != "" {
					edit = []string{`"timezone"`, `"scopes":` + c.claims + `,"timezone"`}
				}
				in := w.request(1, edit...)
				in.Token, in.Reply = mint(w, s, p), p.Answers()+"word"
				w.d.Handle(t.Context(), in)
				synctest.Wait()
				switch got := w.refusals(); {
				case c.want == "" && len(got) > 0:
					t.Errorf("refused with %v", got)
				case c.want != "" && (len(got) != 1 || got[0] != c.want):
					t.Errorf("refused with %v, want %s", got, c.want)
				}
			})
		})
	}
}

// Of a call that runs somebody whose token has ended is not told that nothing was done.
func TestEffectOfARefusedToken(t *testing.T) {
	bubble(t, call.SideEffectful, func(t *testing.T, w *world) {
		s := guarded(w)
		good, ended := someAgent(), someAgent()
		ended.Expires = ended.Issued
		for n, p := range []auth.Principal{good, ended} {
			in := w.request(n + 1)
			in.Token = mint(w, s, p)
			w.d.Handle(t.Context(), in)
			synctest.Wait()
		}
		if e := w.outcome(2).Error; e.Code != envelope.CodeExpired || e.Details.Effect != envelope.EffectUnknown {
			t.Errorf("told %s, effect %s", e.Code, e.Details.Effect)
		}
	})
}

// Nothing is believed without a token, nor before it is known which were revoked.
func TestNoCredential(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		s := guarded(w)
		w.ask(1)
		p := someAgent()
		w.d.Tokens.Revoked = &auth.Revocations{}
		in := w.request(2)
		in.Token = mint(w, s, p)
		w.d.Handle(t.Context(), in)
		synctest.Wait()
		if got := w.refusals(); len(got) != 2 || got[0] != envelope.CodeToken || got[1] != envelope.CodeUnavailable {
			t.Errorf("%v", got)
		}
	})
}

// A question comes over a connection that its own token has opened, or over one of a door of its tenant. A door neither
// renews nor narrows the tokens of others.
func TestWhoseConnection(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		s, p := guarded(w), someAgent()
		for user, want := range map[string]bool{
			p.User(): true, "door.t.front.f": true, "door.u.front.f": false, "agent.t.other.f": false, "": false,
			"agent.t.agent.f": false,
		} {
			for _, op := range []string{subjects.OpResult, subjects.OpTokenRenew, subjects.OpTokenNarrow} {
				may := want && (op == subjects.OpResult || user == p.User())
				_, refusal := w.d.Authenticate(t.Context(), op, from("agent"), call.Credential{
					Token: mint(w, s, p), User: user, Reply: p.Answers() + "word"})
				if (refusal == nil) != may || refusal != nil && refusal.Code != envelope.CodeIdentity {
					t.Errorf("%s over the connection of %q: %v", op, user, refusal)
				}
			}
		}
	})
}

// Each role may ask its own questions, and a refusal is on record.
func TestWhoMayAsk(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		s := guarded(w)
		for op, roles := range map[string]string{
			subjects.OpResult: "agent operator", subjects.OpCancel: "agent operator", subjects.OpPayload: "agent operator",
			subjects.OpStored: "auditor operator", subjects.OpHealth: "operator", subjects.OpKeyRotate: "operator",
			subjects.OpReplay: "operator", subjects.OpLock: "operator", subjects.OpUnlock: "operator",
			subjects.OpLocks:    "operator",
			subjects.OpLockKill: "operator",
			subjects.OpDescribe: "agent door auditor operator", subjects.OpTokenRenew: "agent door auditor executor operator",
		} {
			for _, role := range auth.Roles() {
				p := someAgent()
				if p.Role = role; role == auth.Executor {
					p.Pool = "default"
				}
				before := len(w.refusals())
				_, refusal := w.d.Authenticate(t.Context(), op, from("agent"), call.Credential{
					Token: mint(w, s, p), User: p.User(), Reply: p.Answers() + "word",
				})
				may := slices.Contains(strings.Fields(roles), string(role))
				if (refusal == nil) != may || (len(w.refusals()) == before) != may {
					t.Errorf("%s by %s: %v", op, role, refusal)
				}
				if first, _, _ := strings.Cut(roles, " "); !may && !strings.Contains(refusal.Fix, "--role "+first+"`") {
					t.Errorf("%s by %s: the fix %q names no role that may", op, role, refusal.Fix)
				}
			}
		}
	})
}

package subjects

import (
	"errors"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
)

func TestToken(t *testing.T) {
	long := "mcp::" + strings.Repeat("x", 200)
	for _, c := range []struct{ name, want string }{
		{"", "_e"},
		{"web.fetch", "web_2efetch"},
		{"mcp::github::issues.create", "mcp_3a_3agithub_3a_3aissues_2ecreate"},
		{"agent://uicp/primary", "agent_3a_2f_2fuicp_2fprimary"},
		{"a_b", "a_5fb"},
		{"_e", "_5fe"},
		{"1.0.0-rc.1+b", "1_2e0_2e0-rc_2e1_2bb"},
		{"é*>\x00\xff", "_c3_a9_2a_3e_00_ff"},
		{strings.Repeat("x", maxToken), strings.Repeat("x", maxToken)},
		{long, "mcp_3a_3a" + strings.Repeat("x", 31) + "_h544d46164f41cc17390a635873b378cb"},
		{strings.Repeat("x", 39) + "." + strings.Repeat("y", 60), strings.Repeat("x", 39) + "_h"},
		{strings.Repeat("x", 38) + "." + strings.Repeat("y", 61), strings.Repeat("x", 38) + "_h"},
		{strings.Repeat("x", 37) + "." + strings.Repeat("y", 62), strings.Repeat("x", 37) + "_2e_h"},
	} {
		got := Token(c.name)
		if strings.HasSuffix(c.want, "_h") {
			got = got[:min(len(got), len(c.want))]
		}
		if got != c.want {
			t.Errorf("Token(%q) = %s, want %s", c.name, got, c.want)
		}
	}
}

func TestParseToken(t *testing.T) {
	for _, name := range []string{"", "web.fetch", "a_b", "_e", "é", "\x00", strings.Repeat("x", maxToken)} {
		if got, err := ParseToken(Token(name)); err != nil || got != name {
			t.Errorf("%q came back as %q, %v", name, got, err)
		}
	}
	if _, err := ParseToken(Token(strings.Repeat("é", 100))); !errors.Is(err, ErrDigested) {
		t.Errorf("digested token: %v", err)
	}
	for _, bad := range []string{
		"", "a.b", "a b", "*", ">", "_", "_2", "_2E", "_2g", "_61", "_5F", "a_", "é", "_h", "_e_e", "a_e", "__",
		strings.Repeat("x", maxToken+1),
		strings.Repeat("x", 30) + "_h" + strings.Repeat("0", 32),
		strings.Repeat("x", 40) + "_h" + strings.Repeat("0", 31) + "g",
		strings.Repeat("x", 39) + "__h" + strings.Repeat("0", 32),
	} {
		if got, err := ParseToken(bad); err == nil {
			t.Errorf("%q was parsed as %q", bad, got)
		}
	}
}

// TestTokenMangled: no token with one byte changed is taken for the same name.
func TestTokenMangled(t *testing.T) {
	for _, name := range []string{"web.fetch", "mcp::github::issues.create", strings.Repeat("a.", 80)} {
		token := Token(name)
		for i := range len(token) {
			mangled := token[:i] + string(rune(token[i]+1)) + token[i+1:]
			if got, err := ParseToken(mangled); err == nil && (got == name || Token(got) != mangled) {
				t.Errorf("%s was parsed as %q", mangled, got)
			}
		}
	}
}

var oneToken = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

func TestTokensAreInjective(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	seen := map[string]string{}
	alphabet := "ab_.e0h\x00é"
	for range 100_000 {
		b := make([]byte, rng.IntN(8))
		for i := range b {
			b[i] = alphabet[rng.IntN(len(alphabet))]
		}
		name := string(b) + strings.Repeat("y", rng.IntN(2)*110)
		token := Token(name)
		if other, ok := seen[token]; ok && other != name {
			t.Fatalf("%q and %q share %s", name, other, token)
		}
		seen[token] = name
	}
}

// FuzzToken: always one token, never too long, reversible unless digested; and whatever parses
// is what Token makes.
func FuzzToken(f *testing.F) {
	for _, s := range []string{"", "web.fetch", "a_2eb", "_e", "_h", strings.Repeat("é", 60),
		strings.Repeat("x", 40) + "_h0123456789abcdef0123456789abcdef"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		token := Token(s)
		if !oneToken.MatchString(token) || len(token) > maxToken {
			t.Fatalf("Token(%q) = %q", s, token)
		}
		back, err := ParseToken(token)
		if err == nil && back != s || err != nil && !errors.Is(err, ErrDigested) {
			t.Fatalf("%q came back as %q, %v", s, back, err)
		}
		if name, err := ParseToken(s); err == nil && Token(name) != s {
			t.Fatalf("%q parses as %q, whose token is %q", s, name, Token(name))
		}
		w := word(s)
		if strings.ContainsAny(w, " .*>\t\r\n") || w == "" {
			t.Fatalf("word(%q) = %q", s, w)
		}
		if back, err := parseWord(w); err != nil || back != s {
			t.Fatalf("word %q came back as %q, %v", s, back, err)
		}
		if name, err := parseWord(s); err == nil && word(name) != s {
			t.Fatalf("word %q parses as %q", s, name)
		}
	})
}

// What is appended is the token, whichever length it has.
func TestAppendToken(t *testing.T) {
	for n := range 2*maxToken + 2 {
		for _, s := range []string{strings.Repeat("a", n), strings.Repeat("a.", n/2),
			strings.Repeat("ä", n/6) + strings.Repeat("b", n%6)} {
			if got, want := string(appendToken([]byte("x."), s)), "x."+Token(s); got != want {
				t.Errorf("%q is appended as %q, want %q", s, got, want)
			}
		}
	}
}

package subjects

import (
	"strings"
	"testing"
)

// Whatever a token can be narrowed to is of one family, in subjects, too.
func TestFamily(t *testing.T) {
	for actor, want := range map[string]string{
		"agent://a": "agent://a", "agent://a/b": "agent://a", "agent://a/b/c": "agent://a", "agent://a/": "agent://a",
		"agent://a_2fb": "agent://a_2fb", "agent": "agent", "team/x": "team", "": "", "agent://": "agent://", "/x": "/x",
	} {
		if got := Family(actor); got != want {
			t.Errorf("the family of %q is %q, want %q", actor, got, want)
		}
		token := Token(actor)
		if got := FamilyToken(token); got != Token(want) {
			t.Errorf("the family of %q is %q, want %q", token, got, Token(want))
		}
		if n := testing.AllocsPerRun(10, func() { FamilyToken(token) }); n > 0 {
			t.Errorf("%q: %v allocations", token, n)
		}
	}
	long := strings.Repeat("x", 200)
	if a, b := FamilyToken(Token(long+"a")), FamilyToken(Token(long+"b")); a != b {
		t.Errorf("families of names that are too long: %q, %q", a, b)
	}
}

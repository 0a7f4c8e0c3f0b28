package call

import (
	"slices"
	"strings"
	"testing"
)

// What is noted of scopes is read as it was, or stands for all of them.
func TestScopesAreNoted(t *testing.T) {
	many := strings.Fields(strings.Repeat("scope:of:a:long:name ", 40))
	for i := range many {
		many[i] += strings.Repeat("x", i)
	}
	for _, test := range []struct{ scopes, want []string }{
		{nil, nil}, {[]string{"pay"}, []string{"pay"}}, {[]string{"read", "pay", "read"}, []string{"pay", "read"}},
		{[]string{"*"}, []string{"*"}}, {many, []string{"*"}}, {[]string{"a b"}, []string{"*"}},
		{[]string{"a", "b c"}, []string{"*"}}, {[]string{"a\u00a0b"}, []string{"a\u00a0b"}},
	} {
		note := NoteScopes(slices.Clone(test.scopes)...)
		got, known := Owner{Scopes: note}.Needs()
		if !known || !slices.Equal(got, test.want) || len(note) > maxScopes {
			t.Errorf("%q is noted as %q and read as %q", test.scopes, note, got)
		}
	}
	if scopes, known := (Owner{}).Needs(); known || len(scopes) > 0 {
		t.Errorf("of an earlier build: %q", scopes)
	}
}

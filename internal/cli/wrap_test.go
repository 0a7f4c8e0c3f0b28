package cli

import (
	"slices"
	"testing"
)

func TestWrapped(t *testing.T) {
	for text, want := range map[string][]string{
		"": nil, " a  b ": {"a b"}, "one two": {"one", "two"}, "a bcdef": {"a", "bcdef"}, "abcdefgh i": {"abcde", "fgh i"},
		"ü ü ü": {"ü ü ü"}, "ab abcdefg": {"ab", "abcde", "fg"},
	} {
		if got := Wrapped(text, 5); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

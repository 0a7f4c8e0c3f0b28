package ijson

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	names := []string{"fs.write", "text.search", "transcript.clean", "web.fetch"}
	for word, want := range map[string]string{
		"web.fech": "web.fetch", "web-fetch": "web.fetch", "WEB.FETCH": "web.fetch", "fetch": "web.fetch", "web": "web.fetch",
		"fs.wrtie": "fs.write", "search": "text.search", "transcript.cleaner": "transcript.clean",
		"": "", "nosuch": "", "x": "", "ch": "", strings.Repeat("web.fetch", 100): "",
	} {
		if got, ok := Nearest(word, names); got != want || ok != (want != "") {
			t.Errorf("%.20q: %q (%t), want %q", word, got, ok, want)
		}
	}
	if got, _ := Nearest("fool", []string{"tool", "foo", "fools", "fool"}); got != "fool" {
		t.Errorf("the nearest is %q", got)
	}
}

// Whoever asks for nonsense keeps nobody else waiting: a name that cannot be near is not looked at.
func BenchmarkNearest(b *testing.B) {
	names := make([]string, 1000)
	for i := range names {
		names[i] = strings.Repeat("n", 1+i%128)
	}
	for b.Loop() {
		Nearest(strings.Repeat("w", maxLength), names)
	}
}

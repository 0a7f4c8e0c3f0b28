package mcp

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

func defined(name, title, description, arguments string) *Definition {
	return &Definition{Name: name, title: title, description: description, arguments: json.RawMessage(arguments)}
}

// The scores are those of BM25 by hand. Of a tool with n words in its name, t in its title, a in names of arguments and
// d in descriptions, the length is 5n + 3t + 2a + d.
func TestScores(t *testing.T) {
	x := newIndex([]*Definition{
		defined("alpha_send", "", "", "{}"),                                               // length 10
		defined("beta", "Beta", "beta sends", "{}"),                                       // 5 + 3 + 2 = 10
		defined("gamma", "", "", `{"properties":{"zeta":{"description":"alpha of it"}}}`), // 5 + 2 + 3 = 10
		defined("delta_epsilon", "", "", "{}"),                                            // 10, too: norm is k1
	})
	rarity := func(n, has float64) float64 { return math.Log(1 + (n-has+0.5)/(has+0.5)) }
	one := func(count float64) float64 { return count * 2.2 / (count + 1.2) }
	for query, want := range map[string][]hit{
		"alpha":       {{0, rarity(4, 2) * one(5)}, {2, rarity(4, 2) * one(1)}},
		"Alpha ALPHA": {{0, rarity(4, 2) * one(5)}, {2, rarity(4, 2) * one(1)}},
		"beta":        {{1, rarity(4, 1) * one(5+3+1)}},
		"zeta":        {{2, rarity(4, 1) * one(2)}},
		"send":        {{0, rarity(4, 2) * one(5)}, {1, rarity(4, 2) * one(0.5)}}, // sends is half of send
		"sending":     {{0, rarity(4, 1) * one(2.5)}},                             // sends has another ending
		"beta delta":  {{1, rarity(4, 1) * one(9)}, {3, rarity(4, 1) * one(5)}},
		"it":          {{2, rarity(4, 1) * one(1)}}, // and no form of items
		"omega":       nil,
		" -_. ":       nil,
		"":            nil,
	} {
		if got := x.rank(query); !slices.EqualFunc(got, want, near) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
	// A longer tool with the same word counts less: the lengths are 5 and 11, the mean is 8.
	x = newIndex([]*Definition{defined("alpha", "", "", "{}"), defined("beta", "", "alpha b c d e f", "{}")})
	want := []hit{
		{0, rarity(2, 2) * 5 * 2.2 / (5 + 1.2*(0.25+0.75*5/8))},
		{1, rarity(2, 2) * 1 * 2.2 / (1 + 1.2*(0.25+0.75*11/8))},
	}
	if got := x.rank("alpha"); !slices.EqualFunc(got, want, near) {
		t.Errorf("%v, want %v", got, want)
	}
}

func near(a, b hit) bool { return a.tool == b.tool && math.Abs(a.score-b.score) < 1e-9 }

func TestWords(t *testing.T) {
	for text, want := range map[string]string{
		"listPullRequests": "list pull requests listpullrequests", "HTTPServer": "http server httpserver",
		"git.status-v2_all": "git status v2 all", "GitHub": "git hub github", "S3Bucket": "s3 bucket s3bucket",
		"naïve Überblick": "naïve überblick", "工具 \x00x": "工具 x", strings.Repeat("a", 100): strings.Repeat("a", 64),
		"a\xffb": "a b",
	} {
		if got := strings.Join(slices.Collect(wordsOf(text)), " "); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// Arguments count wherever they are in the schema, and nothing else of it does.
func TestArgumentWords(t *testing.T) {
	d := defined("t", "", "", `{"title":"no","required":["no"],"properties":{"outer":{"items":[{"properties":{
		"inner":{"description":"deep","enum":["no"]}}}]},"properties":{"description":7},"odd":true},
		"$defs":{"x":{"properties":{"defined":{}}}}}`)
	want := map[string]float32{"t": 5, "outer": 2, "inner": 2, "deep": 1, "properties": 2, "odd": 2, "defined": 2}
	if got := d.words(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
	long := defined("t", "", strings.Repeat("word ", 5000), "{")
	if got := long.words()["word"]; got != maxIndexed-1 {
		t.Errorf("%v words of a long description", got)
	}
}

// Whatever the tools: each hit has a word of the query, no other tool has, the best is first, equal ones are in order,
// the same query has the same answer, and the tool with the name that was asked for is the first one.
func TestRankProperties(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	words := strings.Fields("ab abc cd efghij klmnop wxyz repo reposito issue issues merge")
	text := func(most int) string {
		var all []string
		for range random.IntN(most + 1) {
			all = append(all, words[random.IntN(len(words))])
		}
		return strings.Join(all, " ")
	}
	for round := range 200 {
		var all []*Definition
		for i := range 1 + random.IntN(40) {
			name := strings.Repeat(words[random.IntN(len(words))]+"_", i+1)
			all = append(all, defined(name, text(2), text(8), `{"properties":{"`+words[random.IntN(len(words))]+`":{}}}`))
		}
		v := newView(all)
		query := text(3) + " " + words[random.IntN(len(words))]
		hits := v.index.of(v).rank(query)
		if again := newIndex(v.sorted).rank(query); !slices.Equal(hits, again) {
			t.Fatalf("round %d: %v and %v", round, hits, again)
		}
		for i := 1; i < len(hits); i++ {
			a, b := hits[i-1], hits[i]
			if a.score < b.score || a.score == b.score && a.tool >= b.tool {
				t.Errorf("round %d: %v before %v", round, a, b)
			}
		}
		for i, d := range v.sorted {
			has := slices.ContainsFunc(hits, func(h hit) bool { return h.tool == i })
			if want := fits(d, query); has != want {
				t.Errorf("round %d: %q fits %+v: %v, want %v", round, query, d.words(), has, want)
			}
		}
		name := v.sorted[random.IntN(len(v.sorted))].Name
		if got := v.search(wanted{Words: " " + name}).Tools; len(got) == 0 || got[0].Name != name {
			t.Errorf("round %d: %s finds %v", round, name, got)
		}
	}
}

// fits is the rule by which a tool fits a query, in its plainest form.
func fits(d *Definition, query string) bool {
	for word := range wordsOf(query) {
		for has := range d.words() {
			short, long := word, has
			if len(short) > len(long) {
				short, long = long, short
			}
			if word == has || len(short) >= 3 && len(long)-len(short) <= 3 && strings.HasPrefix(long, short) {
				return true
			}
		}
	}
	return false
}

// A search result ends by its size, too, and has one tool at least.
func TestFoundBytes(t *testing.T) {
	var all []*Definition
	for i, size := range []int{200, 100, 20, 20} {
		description := "word " + strings.Repeat("x", size<<10)
		all = append(all, defined(fmt.Sprintf("t%d", i), strings.Repeat("word ", 4-i), description, "{}"))
	}
	for want, v := range map[string]*view{"[t0]": newView(all), "[t1 t2]": newView(all[1:])} {
		got := v.search(wanted{Words: "word"})
		var names []string
		for _, tool := range got.Tools {
			names = append(names, tool.Name)
		}
		if fmt.Sprint(names) != want || got.Found != len(v.sorted) {
			t.Errorf("%v of %d, want %s of %d", names, got.Found, want, len(v.sorted))
		}
	}
}

// Views of the same tools share one index, as long as one of them is in use.
func TestIndexIsShared(t *testing.T) {
	var c catalogue
	a := func() *Definition { return &Definition{Name: "a", Shown: []byte(`{"name":"a"}`)} }
	one, same, other := newView([]*Definition{a()}), newView([]*Definition{a()}), newView(nil)
	for _, v := range []*view{one, same, other} {
		c.share(v)
	}
	if one.index != same.index || one.index == other.index {
		t.Error("the indexes are not those of the tools")
	}
	if x := one.index.of(one); x != same.index.of(same) || len(x.lengths) != 1 {
		t.Errorf("it is made again: %+v", x)
	}
	runtime.KeepAlive(other)
	one, same = nil, nil
	runtime.GC()
	c.share(newView([]*Definition{{Name: "b", Shown: []byte("{}")}}))
	if len(c.indexes) > 2 {
		t.Errorf("%d indexes are kept, and nobody uses that of a", len(c.indexes))
	}
	runtime.KeepAlive(other)
}

// BenchmarkRank is a query with as many words as count, over 5,000 tools that all have them.
func BenchmarkRank(b *testing.B) {
	var words []string
	for i := range maxAsked {
		words = append(words, fmt.Sprintf("word%02d", i))
	}
	query := strings.Join(words, " ")
	var all []*Definition
	for i := range 5000 {
		all = append(all, defined(fmt.Sprintf("tool_%d", i), "", query, "{}"))
	}
	x := newIndex(all)
	for b.Loop() {
		x.rank(query)
	}
}

// Lists are short from 100 tools on, for clients that do not search themselves, and unless searches are off.
func TestSearchOnlyByDefault(t *testing.T) {
	for _, c := range []struct {
		tools, above int
		client       string
		want         bool
	}{
		{99, 50, "x", false}, {100, 50, "x", true}, {100, 50, "", true}, {100, 50, "claude-code", false},
		{100, 200, "x", true}, {100, -1, "x", false},
	} {
		var client *sdk.Implementation
		if c.client != "" {
			client = &sdk.Implementation{Name: c.client}
		}
		l := &shortLists{o: Options{Search: Search{Above: c.above}}}
		if got, err := l.searchOnly(newView(numbered(c.tools)), &sender{}, client); got != c.want || err != nil {
			t.Errorf("%+v: %v, %v", c, got, err)
		}
	}
}

func numbered(n int) (all []*Definition) {
	for i := range n {
		all = append(all, defined(fmt.Sprintf("t%03d", i), "", "", "{}"))
	}
	return all
}

// A session keeps the newest 100 tools that it has found, and one that has ended none.
func TestKept(t *testing.T) {
	l := shortLists{server: sdk.NewServer(&sdk.Implementation{}, nil)}
	session := &sdk.ServerSession{}
	find := func(names ...string) bool {
		var found []foundTool
		for _, name := range names {
			found = append(found, foundTool{Name: name})
		}
		return l.add(session, found)
	}
	if !find("a", "b") || find("b", "a") || !find("c", "a") {
		t.Error("it does not notice what is new")
	}
	for _, d := range numbered(maxKept) {
		find(d.Name)
	}
	if got := l.of(session); len(got) != maxKept || got[0] != "t000" {
		t.Errorf("it keeps %q", got)
	}
	l.add(&sdk.ServerSession{}, nil)
	if got := l.of(session); got != nil {
		t.Errorf("a session that has ended keeps %q", got)
	}
}

package mcp

import (
	"cmp"
	"encoding/json"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"unicode"
)

// Parameters of BM25. An occurrence of a word counts as many times as the weight of its place says.
const (
	saturation = 1.2 // k1
	byLength   = 0.75
	inflected  = 0.5 // of a word that differs from the asked one by its ending

	weightName        = 5
	weightTitle       = 3
	weightArgument    = 2 // name of an argument
	weightDescription = 1 // of the tool, or of an argument
)

// Bounds of what one tool adds to an index, and of what one query asks.
const (
	maxIndexed    = 2000 // words of a tool
	maxAsked      = 32   // different words of a query
	maxWordLength = 64   // bytes; the rest of a longer word does not count
	maxEnding     = 3    // letters by which two forms of one word differ
	minStem       = 3    // letters that two forms of one word share
)

// index ranks tools by BM25. It is immutable.
type index struct {
	lengths  []float64 // of the tools
	mean     float64   // of lengths
	postings map[string][]posting
	sorted   []string // keys of postings
}

// lazyIndex is the index of a view. The first search makes it.
type lazyIndex struct {
	once  sync.Once
	index *index
}

func (l *lazyIndex) of(v *view) *index {
	l.once.Do(func() { l.index = newIndex(v.sorted) })
	return l.index
}

// posting says how much a word counts in a tool.
type posting struct {
	tool  int32
	count float32
}

// hit is a tool that fits a query, by its place in the index.
type hit struct {
	tool  int
	score float64
}

// newIndex returns the index of tools.
func newIndex(all []*Definition) *index {
	x := &index{lengths: make([]float64, len(all)), postings: map[string][]posting{}}
	for i, d := range all {
		counts := d.words()
		for word, n := range counts {
			x.lengths[i] += float64(n)
			x.postings[word] = append(x.postings[word], posting{int32(i), n})
		}
		x.mean += x.lengths[i] / float64(len(all))
	}
	x.sorted = slices.Sorted(maps.Keys(x.postings))
	return x
}

// rank returns the tools that have a word of a query, the best first, and those with equal scores in the order of the
// index.
func (x *index) rank(query string) (hits []hit) {
	scores := make([]float64, len(x.lengths))
	asked := map[string]bool{}
	for word := range wordsOf(query) {
		if len(asked) == maxAsked {
			break
		}
		if !asked[word] {
			asked[word] = true
			x.add(scores, word)
		}
	}
	for i, score := range scores {
		if score > 0 {
			hits = append(hits, hit{i, score})
		}
	}
	slices.SortStableFunc(hits, func(a, b hit) int { return cmp.Compare(b.score, a.score) })
	return hits
}

// add adds the scores of one word.
func (x *index) add(scores []float64, word string) {
	counts, has := make([]float64, len(scores)), 0.0
	for form, weight := range x.forms(word) {
		for _, p := range x.postings[form] {
			if counts[p.tool] == 0 {
				has++
			}
			counts[p.tool] += weight * float64(p.count)
		}
	}
	rarity := math.Log(1 + (float64(len(scores))-has+0.5)/(has+0.5))
	for tool, count := range counts {
		norm := saturation * (1 - byLength + byLength*x.lengths[tool]/x.mean)
		scores[tool] += rarity * count * (saturation + 1) / (count + norm)
	}
}

// forms returns the words of the index that are a word, or differ from it by an ending, such as a plural, with the
// weight of each.
func (x *index) forms(word string) map[string]float64 {
	forms := map[string]float64{}
	for cut := 1; cut <= maxEnding && len(word)-cut >= minStem; cut++ {
		if stem := word[:len(word)-cut]; x.postings[stem] != nil {
			forms[stem] = inflected
		}
	}
	at, _ := slices.BinarySearch(x.sorted, word)
	for ; len(word) >= minStem && at < len(x.sorted) && strings.HasPrefix(x.sorted[at], word); at++ {
		if len(x.sorted[at])-len(word) <= maxEnding {
			forms[x.sorted[at]] = inflected
		}
	}
	if x.postings[word] != nil {
		forms[word] = 1
	}
	return forms
}

// words returns how much each word of a tool counts.
func (d *Definition) words() map[string]float32 {
	counts, left := map[string]float32{}, maxIndexed
	add := func(text string, weight float32) {
		for word := range wordsOf(text) {
			if left--; left < 0 {
				return
			}
			counts[word] += weight
		}
	}
	add(d.Name, weightName)
	add(d.title, weightTitle)
	add(d.description, weightDescription)
	var schema any
	if json.Unmarshal(d.arguments, &schema) == nil {
		eachArgument(schema, add)
	}
	return counts
}

// eachArgument passes the names and descriptions of the arguments in a schema to add, also of those within others.
func eachArgument(schema any, add func(text string, weight float32)) {
	switch s := schema.(type) {
	case []any:
		for _, sub := range s {
			eachArgument(sub, add)
		}
	case map[string]any:
		for _, member := range slices.Sorted(maps.Keys(s)) {
			arguments, _ := s[member].(map[string]any)
			if member != "properties" || arguments == nil {
				eachArgument(s[member], add)
				continue
			}
			for _, name := range slices.Sorted(maps.Keys(arguments)) {
				add(name, weightArgument)
				if of, ok := arguments[name].(map[string]any); ok {
					description, _ := of["description"].(string)
					add(description, weightDescription)
				}
				eachArgument(arguments[name], add)
			}
		}
	}
}

// wordsOf returns the words of a text in lower case. A word in camel case is also each of its parts.
func wordsOf(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for word := range strings.FieldsFuncSeq(text, isBetweenWords) {
			parts := camelParts(word)
			if len(parts) > 1 {
				parts = append(parts, word)
			}
			for _, part := range parts {
				if !yield(strings.ToLower(part[:min(len(part), maxWordLength)])) {
					return
				}
			}
		}
	}
}

func isBetweenWords(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r)
}

// camelParts returns the parts of a word: HTTPServer is HTTP and Server.
func camelParts(word string) (parts []string) {
	runes, from := []rune(word), 0
	for i := 1; i < len(runes); i++ {
		upper, after := unicode.IsUpper(runes[i]), i+1 < len(runes) && unicode.IsLower(runes[i+1])
		if upper && (!unicode.IsUpper(runes[i-1]) || after) {
			parts, from = append(parts, string(runes[from:i])), i
		}
	}
	return append(parts, string(runes[from:]))
}

package ijson

import "strings"

// maxLength is the longest word, in bytes, that is compared with others: names are shorter.
const maxLength = 64

// Nearest returns the name that is most similar to word, for a suggestion in an error. Case does not matter. A name is
// similar if its edit distance to word is at most len(word)/3+1. It is also if it begins with word and a dot, or ends
// with a dot and word. The result has ok false if no name is similar, or if word has more than 64 bytes.
func Nearest(word string, names []string) (name string, ok bool) {
	word = strings.ToLower(word)
	if len(word) > maxLength {
		return "", false
	}
	closest := len(word)/3 + 2
	for _, n := range names {
		if d := distance(word, strings.ToLower(n), closest); d < closest {
			name, ok, closest = n, true, d
		}
	}
	return name, ok
}

// distance returns the edit distance between word and name, at most most. It is 1 if word is the first or last part of
// the name between dots.
func distance(word, name string, most int) int {
	if word != "" && (strings.HasSuffix(name, "."+word) || strings.HasPrefix(name, word+".")) {
		return min(1, most)
	}
	if max(len(word), len(name))-min(len(word), len(name)) >= most {
		return most
	}
	return edits(word, name)
}

// edits counts the insertions, deletions and replacements of bytes between a and b.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}

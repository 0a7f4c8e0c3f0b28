package transcript

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

var (
	// hesitation is no word of any language that is often transcribed.
	hesitation = regexp.MustCompile(`^(?:[Uu]h+m*|[Ää]h+m*|[Öö]h+m*|[Ee]uh+)$`)
	// englishHesitation are words elsewhere: "um" in German and Portuguese, "er" in German.
	englishHesitation = regexp.MustCompile(`^(?:[Uu]m+|[Ee]rm+|[Ee]r)$`)
)

// english and others are frequent words that tell whether text is English.
var (
	english = set(`the and is of you that it this was have what with they would there about because
		i'm it's don't that's we're they're you're`)
	others = set(`und nicht der das ist ein eine que não uma para é os los el está het een och att är det jeg
		ikke og les des est une pas il che sono la`)
)

// repeated are words that nobody means when they come twice in a row.
var repeated = set(`i the a an and of to in my our we but if with for at your its their i'm i've we're it's`)

// joining are words that no comma follows, unless a hesitation did.
var joining = set(`and but or the a an to of in on with for that because is are was`)

// isEnglish says whether text with these words is English. It counts each word once, so that
// removing repetitions cannot change the answer.
func isEnglish(words map[string]bool) bool {
	count := func(list map[string]bool) (n int) {
		for word := range list {
			if words[word] {
				n++
			}
		}
		return n
	}
	return count(english) > 2*count(others)
}

// tidyWords removes hesitations and stammering from a paragraph, marks left without a word at its
// start, and ">>" that only cleaning set free.
func tidyWords(text string, inEnglish bool) string {
	all := strings.Fields(text)
	kept := make([]string, 0, len(all))
	capital := false // whether the removed start of a sentence was written large
	for i, word := range all {
		switch {
		case isHesitation(all, i, inEnglish):
			capital = capital || startsSentence(kept) && isUpper(word)
			closeUp(kept, word)
			continue
		case len(kept) == 0 && isLooseMark(word), len(word) > 1 && strings.Trim(word, ">") == "":
			continue
		case len(kept) > 0 && isRepeated(kept[len(kept)-1], word):
			if isUpper(kept[len(kept)-1]) {
				word = upperFirst(word)
			}
			kept = kept[:len(kept)-1]
		}
		word = unstammer(word)
		if capital {
			word = upperFirst(word)
		}
		capital = false
		kept = append(kept, word)
	}
	return strings.Join(kept, " ")
}

const marks = ",.;:!?…—–-"

// core is a word without the marks after it.
func core(word string) string { return strings.TrimRight(word, marks) }

// isHesitation says whether word i is no word. "Um Anna" stays, because "Um" may be a name.
func isHesitation(all []string, i int, inEnglish bool) bool {
	word := core(all[i])
	if !hesitation.MatchString(word) && (!inEnglish || !englishHesitation.MatchString(word)) {
		return false
	}
	if !isUpper(word) || word != all[i] || i+1 == len(all) {
		return true
	}
	next := core(all[i+1])
	return !isUpper(next) || next == "I" || strings.HasPrefix(next, "I'") || strings.HasPrefix(next, "I’")
}

// closeUp mends the punctuation around a removed hesitation: the mark that ends a sentence goes to
// the word before, and "and, uh, then" loses its first comma.
func closeUp(kept []string, removed string) {
	if len(kept) == 0 {
		return
	}
	last := &kept[len(kept)-1]
	tail := removed[len(core(removed)):]
	switch r, _ := utf8.DecodeLastRuneInString(*last); {
	case (tail == "." || tail == "?" || tail == "!") && (r == ',' || unicode.IsLetter(r) || unicode.IsDigit(r)):
		*last = strings.TrimSuffix(*last, ",") + tail
	case tail == "," && joining[strings.ToLower(strings.TrimSuffix(*last, ","))]:
		*last = strings.TrimSuffix(*last, ",")
	}
}

func startsSentence(kept []string) bool {
	return len(kept) == 0 || strings.ContainsAny(kept[len(kept)-1][len(core(kept[len(kept)-1])):], ".!?…")
}

// isLooseMark says whether a word is nothing but a mark that cannot start a paragraph.
func isLooseMark(word string) bool {
	return slices.Contains([]string{",", ".", ";", ":", "?", "!", "-", "–", "—"}, word)
}

// isRepeated says whether word repeats the one before it by stammering.
func isRepeated(before, word string) bool {
	first, again := strings.ToLower(core(before)), strings.ToLower(core(word))
	if first != again || !repeated[strings.ReplaceAll(first, "’", "'")] {
		return false
	}
	return slices.Contains([]string{"", ",", "-", "–", "—", "--", "...", "…"}, before[len(core(before)):])
}

// unstammer turns "w-w-we" into "we" and "I-I" into "I".
func unstammer(word string) string {
	if !strings.Contains(word, "-") {
		return word
	}
	stem := core(word)
	parts := strings.Split(strings.ToLower(stem), "-")
	last := parts[len(parts)-1]
	for _, part := range parts[:len(parts)-1] {
		if part == "" || part != parts[0] || !strings.HasPrefix(last, part) {
			return word
		}
	}
	stammered := len(parts) > 2 && len(last) > len(parts[0]) && len(parts[0]) <= 3
	if !stammered && !(len(parts) > 1 && last == parts[0] && repeated[last]) {
		return word
	}
	rest := stem[strings.LastIndexByte(stem, '-')+1:] + word[len(stem):]
	if isUpper(word) {
		return upperFirst(rest)
	}
	return rest
}

func isUpper(word string) bool {
	r, _ := utf8.DecodeRuneInString(word)
	return unicode.IsUpper(r)
}

func upperFirst(word string) string {
	r, size := utf8.DecodeRuneInString(word)
	return string(unicode.ToUpper(r)) + word[size:]
}

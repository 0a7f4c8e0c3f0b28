package transcript

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	clock      = `\d{1,2}:\d{2}(?::\d{2})?(?:[.,]\d{1,3})?`
	spokenName = `[^\s:：<>\[\]{}"“”?!;,|]+(?: [^\s:：<>\[\]{}"“”?!;,|]+){0,4}`
)

var (
	label = regexp.MustCompile(`^(` + spokenName + `)(?: *[\[(]?` + clock + `[\])]?)? ?[:：](?:\s+|$)`)
	// wideLabel is a label in scripts that put no space after a colon.
	wideLabel = regexp.MustCompile(`^(` + spokenName + `)：`)
	// labelLine is a name and a time on a line of their own, as meeting recorders export them.
	labelLine = regexp.MustCompile(`^(` + spokenName + `) +[\[(]?` + clock + `[\])]?$`)

	bracketTime = regexp.MustCompile(`^[\[(]` + clock + `(?: ?(?:-->|-|–) ?` + clock + `)?[\])]`)
	// longTime is a time that cannot be meant as a time of day at the start of a sentence.
	longTime = regexp.MustCompile(`^\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d{1,3})?|[.,]\d{3})(?:\s|$)`)
	loneTime = regexp.MustCompile(`^` + clock + `$`)
	bareTime = regexp.MustCompile(`^` + clock + `(?:\s|$)`)
	// readTime is what screen readers get beside a time: "1 minute, 4 seconds".
	readTime = regexp.MustCompile(`^\d+ (?:hour|minute|second)s?(?:, \d+ (?:minute|second)s?)*$`)
	newVoice = regexp.MustCompile(`^(?:>+|[-–—•](?:\s+|$))`)
)

// stripLead removes what stands before the words of a line: times in brackets, ">>", dashes.
// turn says that one of them announces another voice.
func stripLead(line string) (rest string, turn bool) {
	for {
		line = strings.TrimSpace(line)
		if loneTime.MatchString(line) {
			return "", turn
		}
		lead := newVoice.FindString(line)
		turn = turn || lead != ""
		if lead == "" {
			lead = bracketTime.FindString(line)
		}
		if lead == "" {
			lead = longTime.FindString(line)
		}
		if lead == "" {
			return line, turn
		}
		line = line[len(lead):]
	}
}

// anotherVoice is ">>" inside a line.
var anotherVoice = regexp.MustCompile(`\s>>+\s`)

// hear makes utterances of a line without markup: one, or more where it has ">>".
func hear(line string) []utterance {
	var heard []utterance
	for i, part := range anotherVoice.Split(line, -1) {
		text, turn := stripLead(part)
		u := utterance{turn: turn || i > 0}
		u.speaker, u.text = splitSpeaker(text)
		u.loose = u.speaker != "" && !u.turn
		u.turn = u.turn || u.speaker != ""
		heard = append(heard, u)
	}
	return heard
}

// splitSpeaker takes the speaker's label off a line. The name is "" when there is none.
func splitSpeaker(line string) (name, rest string) {
	head := firstWords(line)
	for _, form := range []*regexp.Regexp{label, wideLabel} {
		if match := form.FindStringSubmatch(head); match != nil && isName(match[1]) {
			return match[1], line[len(match[0]):]
		}
	}
	return "", line
}

// firstWords returns the start of text, enough for any lead and label.
func firstWords(text string) string {
	const enough, most = 200, 400
	if len(text) <= enough {
		return text
	}
	end := enough + strings.IndexByte(text[enough:min(len(text), most)]+" ", ' ')
	return strings.ToValidUTF8(text[:end], "")
}

// lastWords returns the end of a text: enough to tell whether a sentence ends there.
func lastWords(text string) string {
	const most = 400
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[len(text)-most:], "")
}

// roles are names of speakers that are often written small.
var roles = set(`speaker interviewer interviewee moderator host guest narrator participant caller
	question answer questioner audience`)

// notNames are words before a colon that are no speakers.
var notNames = set(`note notes nb ps example remember warning caution summary agenda date time subject
	chapter section topic title update url link http https source sources duration location re fyi`)

// particles may stand small inside a name.
var particles = set(`von van vom zu zur der den de del della di da do dos du la le el al bin ibn ben ter ten y e of ` +
	`the and`)

// isName says whether s is shaped like the label of a speaker: "Anna", "SPEAKER 1", "Dr. Eva
// van den Berg", "Moderator (off mic)", "speaker_02", "主持人".
func isName(s string) bool {
	words := strings.Split(s, " ")
	if len(s) > 60 || len(words) > 5 || strings.ContainsAny(s, ":：<>[]") || notNames[strings.ToLower(words[0])] {
		return false
	}
	if role, _, _ := strings.Cut(strings.ToLower(words[0]), "_"); roles[role] {
		return true
	}
	if first, _ := utf8.DecodeRuneInString(s); !unicode.IsLetter(first) || unicode.IsLower(first) {
		return false
	}
	inParens := false
	for _, word := range words {
		inParens = inParens || strings.HasPrefix(word, "(")
		if !inParens && !isNameWord(word) {
			return false
		}
		inParens = inParens && !strings.HasSuffix(word, ")")
	}
	return !inParens
}

// isNameWord allows capitals inside for names like deGrasse, and points only in short words like
// "Prof." and "J.R.", because elsewhere they end a sentence.
func isNameWord(word string) bool {
	if strings.Contains(word, ".") && utf8.RuneCountInString(word) > len("Prof.") {
		return false
	}
	first, _ := utf8.DecodeRuneInString(word)
	small := unicode.IsLower(first) && !particles[word] && !strings.ContainsFunc(word, unicode.IsUpper)
	if small || !unicode.IsLetter(first) && !unicode.IsDigit(first) {
		return false
	}
	return !strings.ContainsFunc(word, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsMark(r) && !unicode.IsDigit(r) && !strings.ContainsRune(`.'’-_&/#`, r)
	})
}

// set makes a set of the words of a text.
func set(words string) map[string]bool {
	m := map[string]bool{}
	for _, word := range strings.Fields(words) {
		m[word] = true
	}
	return m
}

package transcript

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// longParagraph is where a paragraph is cut at the next end of a sentence.
	longParagraph = 600
	// tooLong is where it is cut at the next end of a line, because no sentence ends.
	tooLong = 1500
	// endless is where it is cut at the next word, because no line ends either.
	endless = 32 << 10
	// maxRounds bounds how often a paragraph is cleaned of what only appears by cleaning.
	maxRounds = 4
)

// paragraph is what one speaker says without a break.
type paragraph struct {
	speaker string
	text    string
}

func (p paragraph) String() string {
	if p.speaker == "" {
		return p.text
	}
	return p.speaker + ": " + p.text
}

// style is what has to be known of the whole transcript to clean a part of it.
type style struct{ captions, english bool }

// newStyle finds out whether the text is English.
func newStyle(captions bool, spoken []utterance) style {
	distinct := map[string]bool{}
	for _, u := range spoken {
		for _, word := range strings.Fields(strings.ToLower(u.text)) {
			distinct[strings.ReplaceAll(core(word), "’", "'")] = true
		}
	}
	return style{captions: captions, english: isEnglish(distinct)}
}

// settle cleans a paragraph until nothing changes. Its text is empty when nothing is left.
func (s style) settle(p paragraph) paragraph {
	for range maxRounds {
		next := s.refine(p)
		if next == p {
			break
		}
		p = next
	}
	return p
}

// refine cleans a paragraph once.
func (s style) refine(p paragraph) paragraph {
	p.text, _ = stripLead(stripMarkup(p.text))
	if p.speaker == "" {
		p.speaker, p.text = splitSpeaker(p.text)
		p.text, _ = stripLead(p.text)
	}
	p.text = tidyWords(removeNoise(p.text, s.captions), s.english)
	if !strings.ContainsFunc(p.text, isWordRune) {
		p.text = ""
	}
	return p
}

func isWordRune(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsSymbol(r)
}

// assembler makes paragraphs of utterances and hands them to emit in order.
type assembler struct {
	style
	emit func(string) error

	speaker string   // who has the turn
	label   string   // what the paragraph under way is labelled with
	lines   []string // of the paragraph under way
	length  int

	// held is one turn, in settled parts. It waits until the next turn is known to be of
	// another speaker, because the turn between may turn out to be empty.
	held      string
	heldParts []string
}

// add takes the next utterance.
func (a *assembler) add(u utterance) error {
	newTurn := u.turn && (u.speaker == "" || u.speaker != a.speaker)
	if newTurn || a.length >= tooLong {
		if err := a.endParagraph(); err != nil {
			return err
		}
		a.label = ""
	}
	if newTurn {
		a.speaker, a.label = u.speaker, u.speaker
	}
	a.lines = append(a.lines, u.text)
	a.length += len(u.text)
	return nil
}

// endParagraph settles the paragraph under way and puts it to the held turn or in its place.
func (a *assembler) endParagraph() error {
	p := a.settle(paragraph{a.label, join(a.lines)})
	a.lines, a.length = nil, 0
	if p.text == "" {
		return nil
	}
	if p.speaker == "" || p.speaker != a.held {
		if err := a.release(); err != nil {
			return err
		}
	}
	a.held = p.speaker
	a.heldParts = append(a.heldParts, p.text)
	return nil
}

// release emits the held turn.
func (a *assembler) release() error {
	if len(a.heldParts) == 0 {
		return nil
	}
	p := a.settle(paragraph{a.held, join(a.heldParts)})
	a.heldParts = nil
	for _, part := range a.cut(p.text) {
		if err := a.emit(paragraph{p.speaker, part}.String()); err != nil {
			return err
		}
		p.speaker = "" // the first part is labelled, the others go on
	}
	return nil
}

// end emits what is left.
func (a *assembler) end() error {
	if err := a.endParagraph(); err != nil {
		return err
	}
	return a.release()
}

// join joins lines by spaces, or by nothing where the script has no spaces.
func join(lines []string) string {
	var b strings.Builder
	last := ' '
	for _, line := range lines {
		if line == "" {
			continue
		}
		first, _ := utf8.DecodeRuneInString(line)
		if b.Len() > 0 && !(isSpaceless(last) && isSpaceless(first)) {
			b.WriteByte(' ')
		}
		b.WriteString(line)
		last, _ = utf8.DecodeLastRuneInString(line)
	}
	return b.String()
}

func isSpaceless(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana) || strings.ContainsRune("。、，！？：；「」『』", r)
}

// cut cuts a long text at ends of sentences, and an endless one between words.
func (s style) cut(text string) []string {
	var parts []string
	start := 0
	lastWord := strings.LastIndexFunc(text, isWordRune)
	for i := range text {
		const tries = 1000 // looking everywhere would take long where nothing can be cut
		anywhere := i-start >= endless && (i-start)%endless < tries
		if i-start < longParagraph || i > lastWord || !s.cutsBetween(text[start:i], text[i:], anywhere) {
			continue
		}
		parts = append(parts, strings.TrimSpace(text[start:i]))
		start = i
	}
	return append(parts, strings.TrimSpace(text[start:]))
}

// cutsBetween says whether a paragraph may end before rest: a sentence ends there, or anywhere
// between two words, and both sides read the same when they stand alone.
func (s style) cutsBetween(before, rest string, anywhere bool) bool {
	before = lastWords(before)
	ender, _ := utf8.DecodeLastRuneInString(before)
	next, _ := utf8.DecodeRuneInString(rest)
	spaced := next == ' ' || strings.ContainsRune(wideEnders, ender) || anywhere && isSpaceless(ender) && isSpaceless(next)
	if !spaced || !anywhere && !endsSentence(before) {
		return false
	}
	last := "x " + before[strings.LastIndexByte(before, ' ')+1:]
	if tidyWords(last, s.english) != last {
		return false
	}
	rest = strings.TrimSpace(rest)
	first, _ := utf8.DecodeRuneInString(rest)
	return (anywhere || !unicode.IsLower(first)) && !strings.ContainsRune(closing, first) && s.startsPlainly(rest)
}

// startsPlainly says whether text starts with nothing that is removed at the start of a paragraph.
func (s style) startsPlainly(text string) bool {
	head := firstWords(text)
	lead, _ := stripLead(head)
	speaker, _ := splitSpeaker(head)
	return lead == head && speaker == "" && tidyWords(head, s.english) == head
}

const (
	enders     = ".!?…" + wideEnders
	wideEnders = "。！？" // no space follows these
	closing    = `"'”’)]»」』`
)

// abbreviations end with a point but no sentence.
var abbreviations = set(`mr mrs ms dr prof st vs etc e.g i.e no fig jr sr bzw z.b ca`)

func endsSentence(text string) bool {
	text = strings.TrimRight(text, closing)
	last, size := utf8.DecodeLastRuneInString(text)
	if !strings.ContainsRune(enders, last) {
		return false
	}
	if last != '.' {
		return true
	}
	word := text[strings.LastIndexByte(text, ' ')+1 : len(text)-size]
	initial := utf8.RuneCountInString(word) == 1 && isUpper(word)
	return !initial && !abbreviations[strings.ToLower(word)]
}

package transcript

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestClean has a row for each rule of the package comment, and for what each must leave alone.
func TestClean(t *testing.T) {
	t.Parallel()
	const cue = "00:00:01.000 --> 00:00:02.000\n"
	for name, test := range map[string]struct{ text, want string }{
		"byte order mark and CR":      {"\ufeffOne.\rTwo.\r\nThree.", "One. Two. Three."},
		"invisible characters":        {"so\u00adft hy\u200bphen\u0007", "soft hyphen"},
		"joiners stay":                {"می\u200cخواهم", "می\u200cخواهم"},
		"invalid UTF-8":               {"a\xffb", "a\ufffdb"},
		"times without hours":         {"WEBVTT\n\n00:01.000 --> 00:02.000\nHi.", "Hi."},
		"header in the block of cue":  {"WEBVTT\nKind: captions\n" + cue + "Hi.", "Hi."},
		"style, region and note":      {"WEBVTT\n\nSTYLE\n::cue {}\n\nREGION\nid:a\n\n" + cue + "Hi.\n\nNOTE x\ny\n", "Hi."},
		"take note":                   {"WEBVTT\n\n" + cue + "Take NOTE of this.", "Take NOTE of this."},
		"cue identifier":              {"WEBVTT\n\nfirst words\n" + cue + "Hi.", "Hi."},
		"SRT without blank lines":     {"1\n" + cue + "One.\n2\n" + cue + "Two.", "One. Two."},
		"SRT with blank after number": {"1\n\n" + cue + "One.", "One."},
		"blank line in a cue":         {"1\n" + cue + "One.\n\nTwo.", "One. Two."},
		"a number that is said":       {"1\n" + cue + "2024\n\n2\n" + cue + "ended.", "2024 ended."},
		"text before the first cue":   {"Preface.\n\n1\n" + cue + "One.", "Preface. One."},
		"voices":                      {"WEBVTT\n\n" + cue + "<v Anna>Hi.<v.loud Bob B.>Oh.</v>", "Anna: Hi.\n\nBob B.: Oh."},
		"a voice without a name":      {"WEBVTT\n\n" + cue + "<v>Hi.\n<v x:y>Oh.", "Hi.\n\nOh."},
		"a label inside a voice":      {"WEBVTT\n\n" + cue + "<v Anna>Bob: no.", "Anna: Bob: no."},
		"the same label in a voice":   {"WEBVTT\n\n" + cue + "<v Anna>Anna: no.", "Anna: no."},
		"tags": {"<i>a</i> <c.x.y>b</c> <font color=\"red\">c</font> <00:01.000>d <3 e",
			"a b c d <3 e"},
		"tags in tags":             {"<<i>b>a</<i>b>", "a"},
		"override tags":            {"{\\an8}a {b}", "a {b}"},
		"entities":                 {"Q&amp;A &#39;x&#39; &amp;amp;lt;3", "Q&A 'x' <3"},
		"exact duplicate":          {cue + "No.\n\n" + cue + "No.", "No."},
		"said twice":               {cue + "No.\n\n00:00:02.000 --> 00:00:03.000\nNo.", "No. No."},
		"pause":                    {cue + "One.\n\n00:00:06.000 --> 00:00:07.000\nTwo.", "One.\n\nTwo."},
		"loose label":              {cue + "ANNA: One.\n\n" + cue + "Two.", "ANNA: One.\n\nTwo."},
		"loose label goes on":      {cue + "ANNA: One\n\n" + cue + "and two.", "ANNA: One and two."},
		"voice mark inside a line": {"one >> two >>> three", "one\n\ntwo\n\nthree"},
		"labels": {"SPEAKER_01: a\nspeaker 2: b\nDr. Eva van den Berg: c\n主持人：d",
			"SPEAKER_01: a\n\nspeaker 2: b\n\nDr. Eva van den Berg: c\n\n主持人: d"},
		"label with a time":        {"Anna (00:12): a\nBob [1:02:03]: b", "Anna: a\n\nBob: b"},
		"label on its own line":    {"ANNA:\na\nb", "ANNA: a b"},
		"no labels":                {"Note: a\nand here is why: b\nhttp://x.y", "Note: a and here is why: b http://x.y"},
		"same label again":         {"Anna: a\nAnna: b\n\nAnna: c", "Anna: a b c"},
		"empty turn between":       {"Anna: a\nBob: (laughs)\nAnna: b", "Anna: a b"},
		"time of day":              {"10:30 works for me.", "10:30 works for me."},
		"times at two lines":       {"0:00 hello\n0:03 there", "hello there"},
		"times on their own lines": {"0:00\nhello\n1:04\n1 minute, 4 seconds\nthere", "hello there"},
		"4 seconds without a time": {"It took\n4 seconds", "It took 4 seconds"},
		"time in brackets":         {"so [00:01:02] there (1:02)", "so there"},
		"dashes":                   {"- One.\n– Two.\n-three", "One.\n\nTwo. -three"},
		"sounds":                   {"[Music] a (laughs), b [soft upbeat music playing]. *sighs* ♪ c ♪ [音楽]", "a, b. c"},
		"sounds in sounds":         {"a [[Music] (laughs)] b", "a b"},
		"words of an editor": {"He (the driver) left [the company]. (Music was loud.)",
			"He (the driver) left [the company]. (Music was loud.)"},
		"missing words stay": {"a [inaudible] b [crosstalk 00:01] c", "a [inaudible] b [crosstalk 00:01] c"},
		"calls stay":         {"call f() now", "call f() now"},
		"stage directions": {cue + "[door slams] a [DOOR SLAMS] b [Anna] c [indistinct radio]",
			"a b [Anna] c [indistinct radio]"},
		"marks of direction":   {"\u202bאנה: שלום\u202c\n\u200fבני: כן", "אנה: שלום\n\nבני: כן"},
		"French spaces":        {"Ça va ? Oui !", "Ça va ? Oui !"},
		"hesitations":          {"Um, the uh, plan. So, uh... that is it, um.", "The plan. So, that is it."},
		"hesitation in a list": {"the end and, um, the rest", "the end and the rest"},
		"um is a word":         {"Um zehn Uhr, um, um. Um, dois, três.", "Um zehn Uhr, um, um. Um, dois, três."},
		"Umm is a name":        {"This is what Umm Kulthum sang. Um I know.", "This is what Umm Kulthum sang. I know."},
		"answers stay":         {"Uh-huh. Mm-hmm. Hmm. The ER.", "Uh-huh. Mm-hmm. Hmm. The ER."},
		"German hesitations":   {"Das ist, ähm, gut. Äh, ja.", "Das ist, gut. Ja."},
		"repetitions":          {"The the cat, I, I think, and... and of of", "The cat, I think, and of"},
		"meant repetitions": {"No no no, he had had that that. Very very.",
			"No no no, he had had that that. Very very."},
		"stammering":             {"W-w-we th-th-the I-I re-read so-so no-no-no", "We the I re-read so-so no-no-no"},
		"scripts without spaces": {"世界\n你好。\nabc", "世界你好。 abc"},
		"only marks":             {"...\n\n— \n\nword", "word"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, cleanAll(t, test.text)); diff != "" {
				t.Errorf("%q (-want +got):\n%s", test.text, diff)
			}
		})
	}
}

func TestLongParagraphsAreCut(t *testing.T) {
	t.Parallel()
	sentence := "This sentence by Dr. Smith is long enough to be seen. "
	got := strings.Split(cleanAll(t, "Anna: "+strings.Repeat(sentence, 40)), "\n\n")
	if len(got) != 4 || !strings.HasPrefix(got[0], "Anna: This") || !strings.HasPrefix(got[1], "This") {
		t.Fatalf("%d paragraphs: %q", len(got), got)
	}
	for _, paragraph := range got[:3] {
		if len(paragraph) < longParagraph || len(paragraph) > longParagraph+2*len(sentence) ||
			!strings.HasSuffix(paragraph, "seen.") {
			t.Errorf("%d bytes: %q", len(paragraph), paragraph)
		}
	}
}

func TestTextWithoutSentencesIsCutBetweenLines(t *testing.T) {
	t.Parallel()
	got := strings.Split(cleanAll(t, strings.Repeat("words without an end\n", 200)), "\n\n")
	if len(got) != 3 {
		t.Errorf("%d paragraphs", len(got))
	}
}

// TestEndlessTextIsCutBetweenWords holds that text without lines and sentences can be streamed, too.
func TestEndlessTextIsCutBetweenWords(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"words":     strings.Repeat("words without an end ", 20_000),
		"no spaces": strings.Repeat("世界", 50_000),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			once := cleanAll(t, text)
			for paragraph := range strings.SplitSeq(once, "\n\n") {
				if len(paragraph) > endless+20 {
					t.Errorf("a paragraph of %d bytes", len(paragraph))
				}
			}
			if cleanAll(t, once) != once {
				t.Error("cleaning again changes it")
			}
			if got := strings.ReplaceAll(once, "\n\n", " "); len(strings.Fields(got)) < len(strings.Fields(text)) {
				t.Errorf("%d words of %d", len(strings.Fields(got)), len(strings.Fields(text)))
			}
		})
	}
}

func TestIsName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Anna", "SPEAKER 1", "Speaker_00", "interviewer", "Q", "J.R. Ewing",
		"Neil deGrasse Tyson",
		"Anna O’Neill", "Moderator (off mic)", "Ludwig van Beethoven", "Élodie", "主持人", "M/C"} {
		if !isName(name) {
			t.Errorf("%q is no name", name)
		}
	}
	for _, text := range []string{"", "note", "Note", "here is why", "42", "(off mic)", "Anna:",
		"And then he said that he", "He said.And",
		"A (b", strings.Repeat("A", 61)} {
		if isName(text) {
			t.Errorf("%q is a name", text)
		}
	}
}

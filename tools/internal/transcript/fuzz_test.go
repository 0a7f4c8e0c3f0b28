package transcript

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// cleanAll cleans text and returns its paragraphs, an empty line between.
func cleanAll(t testing.TB, text string) string {
	t.Helper()
	var paragraphs []string
	err := clean(context.Background(), text, sink{
		paragraph: func(text string) error {
			paragraphs = append(paragraphs, text)
			return nil
		},
		progress: func(progress) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(paragraphs, "\n\n")
}

// FuzzClean holds the promises that every text must keep.
func FuzzClean(f *testing.F) {
	for _, seed := range []string{
		"WEBVTT\n\n00:01.000 --> 00:02.000\n<v Anna>Hi, um, <c.x>Bob</c>\n",
		"1\r\n00:00:01,000 --> 00:00:02,500\r\n{\\an8}<i>Hello</i>\r\n\r\n2\r\n00:00:02,500 --> 00:00:09,000\r\n- " +
			"[laughs]\r\n- No.\r\n",
		"[00:01:02] Anna: the the plan\n[00:01:05] Anna: I, I mean\n\nBob (00:02): Um. (laughs)",
		"0:00\nhello there\n0:04\n4 seconds\n[Music]\n",
		"SPEAKER_00: uh\n\nSPEAKER_01: w-w-we &amp;amp; you ♪ la ♪",
		"[[[[Music]]]] ((laughs) *sighs*) 主持人：你好。世界",
		"Um, Bob: hi\n\nBob: there. Um um. [Mus\nic]",
	} {
		f.Add(seed)
	}
	f.Fuzz(checkPromises)
}

func checkPromises(t *testing.T, text string) {
	t.Helper()
	once := cleanAll(t, text)
	if !utf8.ValidString(once) || strings.TrimSpace(once) != once || strings.Contains(once, "\n\n\n") {
		t.Errorf("untidy: %q", once)
	}
	if hides(text) || isCaptions(splitLines(once)) || strings.HasPrefix(once, "WEBVTT") ||
		isEnglishText(text) != isEnglishText(once) {
		return
	}
	if twice := cleanAll(t, once); twice != once {
		t.Errorf("cleaning %q\ntwice is not as once (-once +twice):\n%s", text, cmp.Diff(once, twice))
	}
}

func isEnglishText(text string) bool {
	spoken, _ := read(text)
	return newStyle(false, spoken).english
}

// hides says whether text is of the kind for which cleaning twice is not promised: entities
// built from pieces of entities, which appear one round after the other.
func hides(text string) bool {
	for range maxRounds {
		text = stripMarkup(text)
	}
	return stripMarkup(text) != text
}

// fragments are what transcripts are made of, and what the cleaner looks for.
var fragments = []string{
	" ", " ", " ", "\n", "\n", "\n\n", "\r\n", "the", "the", "I", "we", "Um,", "um", "uh.", "Uh", "er", "w-w-we", "I-I",
	"hello", "World.", "Yes!", "no", "und", "que", ",", ".", "…", "-", "- ", ">> ", "—", ":", ": ", "Anna: ", "Bob: ",
	"Anna", "SPEAKER 1: ", "Dr. Eva van Berg: ", "主持人：", "你好。", "世界", "[", "]", "(", ")", "*", "[Music]", "(laughs)",
	"[inaudible]", "[door slams]", "♪", "[00:01]", "00:01:02 ", "0:03", "10:30 ", "4 seconds", "(1:02)", "<", ">", "<i>",
	"</i>",
	"<c.x>", "<v Anna>", "<v bob>", "<00:00:01.000>", "&amp;", "&lt;", "&gt;", "&", "amp;", "lt;", "{\\an8}", "42",
	"WEBVTT",
	"NOTE", "00:01.000 --> 00:02.000", "00:00:03,000 --> 00:00:04,000", "-->", "0:00:01.000,0:00:02.000", "“", "”",
	"\u00a0",
	"\ufeff", "A. ", "etc. ", strings.Repeat("long words go on and on ", 12) + "end. ", strings.Repeat("no end here ", 60),
}

// compose makes a text of one fragment for each byte.
func compose(picks []byte) string {
	var b strings.Builder
	for _, pick := range picks {
		b.WriteString(fragments[int(pick)%len(fragments)])
	}
	return b.String()
}

// FuzzCleanComposed holds the same promises for texts that look more like transcripts.
func FuzzCleanComposed(f *testing.F) {
	f.Add([]byte("0123456789abcdefghijklmnopqrstuvwxyz"))
	f.Fuzz(func(t *testing.T, picks []byte) { checkPromises(t, compose(picks)) })
}

// TestCleanComposed does the same without the fuzzer's help.
func TestCleanComposed(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	texts := 2000
	if testing.Short() {
		texts /= 8
	}
	for range texts {
		picks := make([]byte, random.IntN(60))
		for i := range picks {
			picks[i] = byte(random.IntN(len(fragments)))
		}
		checkPromises(t, compose(picks))
	}
}

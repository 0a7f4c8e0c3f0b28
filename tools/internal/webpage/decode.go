package webpage

import (
	"bytes"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
)

// page is a page as text.
type page struct {
	url      *url.URL
	html     bool // else it is plain text
	text     string
	language string // as the server says
}

// decode finds out what the body of an answer is and decodes it.
func decode(a answer) (page, error) {
	kind, err := kindOf(a.contentType, a.body)
	if err != nil {
		return page{}, err
	}
	text, err := decodeText(a.contentType, a.body)
	if err != nil {
		return page{}, err
	}
	if strings.ContainsRune(text[:min(len(text), 4<<10)], 0) {
		return page{}, parseFailed("binary", "the page is binary data")
	}
	if strings.TrimSpace(text) == "" {
		return page{}, parseFailed("empty", "the page is empty")
	}
	return page{url: a.url, html: kind == "text/html", text: text, language: a.language}, nil
}

// kindOf returns text/html or text/plain. What the server says counts, unless it says nothing of
// use or the first bytes are those of a well-known binary format.
func kindOf(contentType string, body []byte) (string, error) {
	sniffed, _, _ := strings.Cut(http.DetectContentType(body), ";")
	name, _, _ := strings.Cut(contentType, ";") // broken parameters take nothing from the name
	said, _, err := mime.ParseMediaType(name)
	if err != nil || said == "application/octet-stream" {
		said = sniffed
	}
	switch {
	case isBinary(sniffed, body):
		return "", parseFailed("unsupported_type", "the page is no text: "+sniffed)
	case said == "text/html", said == "application/xhtml+xml":
		return "text/html", nil
	case strings.HasPrefix(said, "text/") && said != "text/xml":
		return "text/plain", nil
	}
	return "", parseFailed("unsupported_type", "the page is no text for people: "+said)
}

// isBinary says whether a body is of a binary format. Some formats are known by letters that start
// words, too ("BM", "OTTO"), so the bytes that text never has must be there as well. A PDF or a
// PostScript document may be without them.
func isBinary(sniffed string, body []byte) bool {
	switch {
	case strings.HasPrefix(sniffed, "text/"), sniffed == "application/octet-stream":
		return false
	case sniffed == "application/pdf", sniffed == "application/postscript":
		return true
	}
	return bytes.ContainsFunc(body, func(r rune) bool { return r < '\t' || '\r' < r && r < ' ' && r != '\x1b' })
}

// decodeText decodes a body by its byte order mark, what the server says, its meta element, or as
// UTF-8 where that is valid. Only the first kilobyte is looked at for a guess, so a guess counts
// less than all of the body. Encodings in which text can hide something from filters, such as
// ISO-2022-KR, are decoded by no browser either.
func decodeText(contentType string, body []byte) (string, error) {
	encoding, name, certain := charset.DetermineEncoding(body, contentType)
	if name == "replacement" {
		return "", parseFailed("charset", "the page is in an encoding that is not read")
	}
	if certain || !utf8.Valid(body) {
		if decoded, err := encoding.NewDecoder().Bytes(body); err == nil {
			body = decoded
		}
	}
	text := strings.ToValidUTF8(string(body), "\uFFFD")
	return strings.TrimPrefix(text, "\ufeff"), nil
}

// firstOf returns the first text that is not blank, or nil. Headers may be of any bytes.
func firstOf(texts ...string) *string {
	i := slices.IndexFunc(texts, func(text string) bool { return strings.TrimSpace(text) != "" })
	if i < 0 {
		return nil
	}
	text := strings.Join(strings.Fields(strings.ToValidUTF8(texts[i], "\uFFFD")), " ")
	return &text
}

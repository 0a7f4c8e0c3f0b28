package main

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/html/charset"

	"github.com/seed-018f16cc/toolbus/tools/internal/webpage"
)

// site serves testdata/site and everything that goes wrong with pages.
func site(t testing.TB) *httptest.Server {
	mux := http.NewServeMux()
	mux.Handle("/site/", http.StripPrefix("/site/", http.FileServer(http.Dir("testdata/site"))))
	mux.HandleFunc("/windows-1251", encoded(t, "russian.html", "text/html", "windows-1251", ""))
	mux.HandleFunc("/shift-jis", encoded(t, "japanese.html", "text/html", "shift_jis", ""))
	mux.HandleFunc("/utf-16", encoded(t, "docs.html", "text/html", "utf-16le", "\ufeff"))
	mux.HandleFunc("/utf-16-header", encoded(t, "docs.html", "text/html; charset=utf-16be", "utf-16be", ""))
	mux.HandleFunc("/latin-1", text("text/html; charset=ISO-8859-1", "<title>Caf\xe9</title><p>Gr\xfc\xdfe aus K\xf6ln"))
	mux.HandleFunc("/late-utf-8", text("text/html", "<title>a</title><p>"+strings.Repeat("plain words ", 200)+"Grüße"))
	mux.HandleFunc("/wrong-charset", text("text/html; charset=no-such", "<title>a</title><p>Grüße"))
	mux.HandleFunc("/korean", text("text/html; charset=iso-2022-kr", "<title>a</title><p>\x1b$)C\x0e30\x0f"))
	mux.HandleFunc("/bom", text("text/html; charset=windows-1252", "\ufeff<title>a</title><p>Grüße"))
	mux.HandleFunc("/plain", text("text/plain; charset=utf-8", "line one  \r\n\r\n\r\n\r\nline <two>\r\n"))
	mux.HandleFunc("/xhtml", text("application/xhtml+xml",
		`<html xmlns="http://www.w3.org/1999/xhtml" `+
			`xml:lang="nl"><head><title>a</title></head><body><p>hallo</p></body></html>`))
	mux.HandleFunc("/untyped", text("application/octet-stream", "<!DOCTYPE html><title>a</title><p>hello"))
	mux.HandleFunc("/pdf", text("application/pdf", "%PDF-1.7\n%\xe2\xe3\xcf\xd3\n"))
	mux.HandleFunc("/pdf-as-html", text("text/html", "%PDF-1.7\n%\xe2\xe3\xcf\xd3\n"))
	mux.HandleFunc("/json", text("application/json", `{"a":1}`))
	mux.HandleFunc("/binary", text("text/html", "<p>a\x00b"))
	mux.HandleFunc("/empty", text("text/html", " \n"))
	mux.HandleFunc("/blank", text("text/html", "<html><body><script>render()</script></body></html>"))
	mux.HandleFunc("/nested", text("text/html", strings.Repeat("<div>", 10_000)))
	mux.HandleFunc("/elements", text("text/html", strings.Repeat("<p>a</p>", webpage.MaxElements+1)))
	mux.HandleFunc("/long-text", text("text/plain", strings.Repeat("many words ", 100_000)))
	mux.HandleFunc("/long-html", text("text/html", "<p>few words</p><!--"+strings.Repeat("x", 1<<20)+"-->"))
	mux.HandleFunc("/huge", func(w http.ResponseWriter, _ *http.Request) { fill(w) })
	mux.HandleFunc("/bomb", gzipped(fill))
	mux.HandleFunc("/gzip", gzipped(func(w io.Writer) { _, _ = io.WriteString(w, "<title>a</title><p>hello") }))
	mux.HandleFunc("/brotli", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "br")
		_, _ = io.WriteString(w, "\x0b\x02\x80hello\x03")
	})
	mux.HandleFunc("/status/{code}", func(w http.ResponseWriter, r *http.Request) {
		if wait := r.FormValue("retry_after"); wait != "" {
			w.Header().Set("Retry-After", wait)
		}
		code, _ := strconv.Atoi(r.PathValue("code")) // only numbers are asked for
		w.WriteHeader(code)
	})
	mux.HandleFunc("/hops/{left}", func(w http.ResponseWriter, r *http.Request) {
		left, _ := strconv.Atoi(r.PathValue("left"))
		if left == 0 {
			_, _ = io.WriteString(w, "<title>end</title><p>arrived")
			return
		}
		http.Redirect(w, r, "/hops/"+strconv.Itoa(left-1)+"?q=ü b#part", http.StatusFound)
	})
	mux.HandleFunc("/to", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", r.FormValue("url"))
		w.WriteHeader(http.StatusMovedPermanently)
	})
	mux.HandleFunc("/cut", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, "<p>half")
	})
	mux.HandleFunc("/hang-up", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "<p>wait")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	mux.HandleFunc("/broken-type", text("text/html; charset=", "<article><p>hello"))
	mux.HandleFunc("/double-type", text("text/html; charset=utf-8; charset=utf-8", "<article><p>hello"))
	mux.HandleFunc("/bm", text("text/plain", "BMW recalls cars"))
	mux.HandleFunc("/bmp", text("text/html", "BM\x46\x00\x00\x00\x00\x00\x00\x00"))
	mux.HandleFunc("/odd-language", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Language", "fran\xe7ais")
		_, _ = io.WriteString(w, "<p>bonjour")
	})
	mux.HandleFunc("/headers", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Language", "fr")
		_, _ = io.WriteString(w, "<p>"+r.UserAgent()+" "+r.Header.Get("Accept-Encoding")+" "+r.Header.Get("Cookie"))
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

func text(contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = io.WriteString(w, body)
	}
}

// encoded serves a file, which is UTF-8, in another encoding, and with mark before it.
func encoded(t testing.TB, name, contentType, encoding, mark string) http.HandlerFunc {
	data, err := os.ReadFile(filepath.Join("testdata/site", name))
	if err != nil {
		t.Fatal(err)
	}
	other, _ := charset.Lookup(encoding)
	body, err := other.NewEncoder().String(mark + string(data))
	if err != nil {
		t.Fatal(err)
	}
	return text(contentType, body)
}

// fill writes more than is read.
func fill(w io.Writer) {
	piece := []byte(strings.Repeat("<p>words", 1<<13))
	for range webpage.MaxBody/len(piece) + 2 {
		if _, err := w.Write(piece); err != nil {
			return // the reader has had enough
		}
	}
}

func gzipped(write func(io.Writer)) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Content-Encoding", "gzip")
		packed := gzip.NewWriter(w)
		write(packed)
		_ = packed.Close() // the reader may have had enough
	}
}

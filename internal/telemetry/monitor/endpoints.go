package monitor

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
)

// Paths of the endpoints.
const (
	PathHealth   = "/healthz"
	PathReady    = "/readyz"
	PathMetrics  = "/metrics"
	PathProfiles = "/debug/pprof/" // with [Options.Profiles]
)

func (s *Server) handler(metrics http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+PathHealth, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "ok\n") // the client has gone
	})
	mux.HandleFunc("GET "+PathReady, s.ready)
	mux.HandleFunc("GET "+PathMetrics, s.readers(metrics.ServeHTTP))
	if s.options.Profiles {
		for name, serve := range map[string]http.HandlerFunc{
			"": pprof.Index, "cmdline": pprof.Cmdline, "profile": pprof.Profile, "symbol": pprof.Symbol, "trace": pprof.Trace,
		} {
			mux.HandleFunc("GET "+PathProfiles+name, s.readers(serve))
		}
	}
	return mux
}

// readers serves those that may read the metrics.
func (s *Server) readers(serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if says := s.refuses(r); says != "" {
			w.Header().Set("WWW-Authenticate", `Bearer realm="metrics"`)
			http.Error(w, says, http.StatusUnauthorized)
			return
		}
		serve(w, r)
	}
}

// Readiness is the answer of /readyz. Its status is 200 if the process is ready, and 503 otherwise.
type Readiness struct {
	Ready   bool     `json:"ready"`
	Missing []string `json:"missing"` // what the process waits for
}

func (s *Server) ready(w http.ResponseWriter, _ *http.Request) {
	found := Readiness{Missing: s.missing()}
	found.Ready = len(found.Missing) == 0
	w.Header().Set("Content-Type", "application/json")
	if !found.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.MarshalWrite(w, found) // fails only if the client has gone
}

func (s *Server) missing() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := []string{}
	for _, missing := range s.waiting {
		if says := missing(); says != "" {
			all = append(all, says)
		}
	}
	slices.Sort(all)
	return all
}

// Sizes of a token in bytes. One that can be guessed protects nothing.
const (
	minToken = 16
	maxToken = 4 << 10
)

// refuses returns why a request may not read metrics and profiles, or "" if it may.
func (s *Server) refuses(r *http.Request) string {
	if s.options.TokenFile == "" {
		if s.loopback() {
			return ""
		}
		return "metrics and profiles need a token here: start the process with --http-token-file, or listen on 127.0.0.1"
	}
	want, err := readToken(s.options.TokenFile)
	if err != nil {
		s.options.Logger.Warn("metrics refused", "err", err)
		return "the token file of this process cannot be read: see its log"
	}
	given, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(want)); subtle.ConstantTimeCompare(a[:], b[:]) != 1 {
		return "send the text of the file --http-token-file of this process as a bearer token"
	}
	return ""
}

// checkToken returns an [ErrToken] if requests would be refused whatever they send.
func (s *Server) checkToken() error {
	if s.options.TokenFile != "" {
		if _, err := readToken(s.options.TokenFile); err != nil {
			return fmt.Errorf("%w: --http-token-file: %w; `openssl rand -hex 16` makes a token", ErrToken, err)
		}
	} else if !s.loopback() {
		return fmt.Errorf("%w: away from loopback they need a token: name its file by --http-token-file, or listen on "+
			"127.0.0.1", ErrToken)
	}
	return nil
}

func (s *Server) loopback() bool {
	at, ok := s.listener.Addr().(*net.TCPAddr)
	return ok && at.IP.IsLoopback()
}

// readToken returns the token in a file, without the spaces around it.
func readToken(name string) (string, error) {
	file, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxToken+1))
	token := strings.TrimSpace(string(text))
	switch {
	case err != nil:
		return "", err
	case len(token) < minToken || len(text) > maxToken:
		return "", fmt.Errorf("%s: a token has %d to %d bytes", name, minToken, maxToken)
	}
	return token, nil
}

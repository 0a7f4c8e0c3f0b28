package demo

import (
	"context"
	_ "embed" // the article
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

//go:embed site/article.html
var article []byte

// Two passages of the article page, one from the text and one from its surroundings, and its path.
const (
	articleSays  = "A ferry that runs on time is not a miracle"
	articleChaff = "Subscribe to our newsletter"
	articlePath  = "/2026/harbour/the-night-ferry.html"
)

// site is a small news site on a loopback port, so that the demo needs no network.
type site struct {
	server *http.Server
	base   string // http://127.0.0.1:port
	ended  chan struct{}
}

func startSite() (*site, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("demo site: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+articlePath, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(article) // the client may be gone
	})
	s := &site{
		server: &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second},
		base:   "http://" + listener.Addr().String(), ended: make(chan struct{}),
	}
	go func() { // close waits for it
		defer close(s.ended)
		if err := s.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			_ = listener.Close() // then the fetch fails, and its scene reports it
		}
	}()
	return s, nil
}

func (s *site) url() string { return s.base + articlePath }

func (s *site) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.server.Shutdown(ctx) // Close ends the remaining requests
	_ = s.server.Close()
	<-s.ended
}

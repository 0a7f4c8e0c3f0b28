package mcpcmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/oauth"
)

// signIn holds the flags of a login at a server.
type signIn struct {
	on       bool
	id, file string // of a registered client, and of its secret
	port     int
}

func (s *signIn) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&s.on, "login", false, "log in at a URL that wants a token of OAuth")
	f.StringVar(&s.id, "client-id", "",
		"with --login: `ID` of a client that is registered there; by default it registers one")
	f.StringVar(&s.file, "client-secret-file", "", "with --client-id: `FILE` with the secret of that client")
	f.IntVar(&s.port, "login-port", 0,
		"with --login: port of http://127.0.0.1:PORT/callback, where the browser comes back to; by default any")
}

// function returns the function that logs in, or nil without --login.
func (s *signIn) function(
	cmd *cobra.Command, env cli.Env,
) (func(context.Context, string) (oauth.Grant, error), error) {
	switch {
	case !s.on && (s.id != "" || s.file != "" || s.port != 0):
		return nil, cli.Usagef("--client-id, --client-secret-file and --login-port are for --login")
	case s.file != "" && s.id == "":
		return nil, cli.Usagef("--client-secret-file is for --client-id")
	case s.port < 0 || s.port > 65535:
		return nil, cli.Usagef("--login-port is 1 to 65535")
	case !s.on:
		return nil, nil
	}
	o := oauth.LoginOptions{ClientID: s.id, Port: s.port, Paste: cmd.InOrStdin()}
	o.Show = func(to string) { showLogin(env, to) }
	if s.file != "" {
		raw, err := os.ReadFile(s.file)
		if err != nil {
			return nil, err
		}
		if o.ClientSecret = strings.TrimSpace(string(raw)); o.ClientSecret == "" {
			return nil, errors.New(s.file + " has no secret")
		}
	}
	return func(ctx context.Context, server string) (oauth.Grant, error) {
		at := o
		at.Client = client.NewTokenClient(server)
		g, err := oauth.Login(ctx, server, at)
		if err == nil && g.First.Refresh == "" {
			fmt.Fprintln(env.Stderr, "toolbus: the server gave no refresh token: log in again when the access token ends")
		}
		return g, err
	}, nil
}

// showLogin prints the address where the operator logs in, and opens it if there is a browser.
func showLogin(env cli.Env, to string) {
	fmt.Fprintf(env.Stderr, "Log in at this address:\n\n  %s\n\nIf the browser is on another host, it cannot open the "+
		"page that it is sent to at the end:\npaste the address of that page here.\n", cli.EscapeText(to))
	if program := browser(env.Environ); program != "" {
		if cmd := exec.Command(program, to); cmd.Start() == nil {
			go func() { _ = cmd.Wait() }()
		}
	}
}

// browser returns the program that opens addresses, or "" where there is no display.
func browser(environ []string) string {
	if runtime.GOOS == "darwin" {
		return "open"
	}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if (name == "DISPLAY" || name == "WAYLAND_DISPLAY") && value != "" {
			return "xdg-open"
		}
	}
	return ""
}

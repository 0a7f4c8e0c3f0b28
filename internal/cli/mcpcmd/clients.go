package mcpcmd

import (
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/clientconfig"
)

// choice holds the flags that name a configuration.
type choice struct {
	client, scope, file string
}

func (c *choice) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&c.client, "client", "", "client whose configuration it is: "+clientconfig.Names())
	f.StringVar(&c.scope, "scope", string(clientconfig.User),
		"scope of the configuration of --client: user, or project (or local, of claude-code) for the folder that the "+
			"command runs in")
	f.StringVar(&c.file, "config", "", "`FILE` with the configuration of any other client")
}

// named reports whether the flags name a configuration.
func (c *choice) named() bool { return c.client != "" || c.file != "" }

// find returns the location of the servers in the named configuration, and the places with which it was found.
func (c *choice) find(env cli.Env) (l clientconfig.Location, p clientconfig.Places, err error) {
	p = clientconfig.Places{Home: variable(env, "HOME"), Config: env.Config}
	if p.Project, err = os.Getwd(); err != nil {
		return l, p, err
	}
	switch {
	case c.client != "" && c.file != "":
		return l, p, cli.Usagef("leave --client or --config out: the command takes one of them")
	case c.client != "":
		if l, err = clientconfig.Locate(c.client, clientconfig.Scope(c.scope), p); err != nil {
			return l, p, cli.Usagef("%v", err)
		}
		return l, p, nil
	case c.scope != string(clientconfig.User):
		return l, p, cli.Usagef("leave --scope out: it goes with --client")
	case c.file != "":
		l, err = clientconfig.At(c.file, p)
	}
	return l, p, err
}

// unnamed returns the error of a command that needs a configuration.
func unnamed() error {
	return cli.Usagef("say whose configuration it is, with --client or --config; known clients: %s", clientconfig.Names())
}

// variable returns a variable of the environment.
func variable(env cli.Env, name string) (value string) {
	for _, v := range env.Environ {
		if text, ok := strings.CutPrefix(v, name+"="); ok {
			value = text
		}
	}
	return value
}

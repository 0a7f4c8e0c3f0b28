package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus/accounts"
	"github.com/seed-018f16cc/toolbus/internal/cli"
)

func keysCmd(g *global) *cobra.Command {
	cmd := cli.Family(&cobra.Command{
		Use: "keys", Short: "Make the secrets of a deployment, and the configurations of its servers", GroupID: "operate",
	})
	cmd.AddCommand(keysInitCmd(g))
	return cmd
}

func keysInitCmd(g *global) *cobra.Command {
	plan := accounts.Plan{}
	cmd := &cobra.Command{
		Use: "init DIR", Short: "Make those of a new deployment in a folder", Args: cli.Args(1, 1, "a folder"),
		Long: `Writes into DIR: keys/, the secrets, which dispatchers need and nobody else may read; operator.token, the
credential of its first operator, who issues all others; a
configuration for each NATS server, in which nothing is secret; and, where servers are reached from other
machines, tls/ with a certificate authority of the deployment's own and certificates for each server and for
clients. What is there is never replaced.

The profiles: single is one server; standard three, each write on two of them; durable is standard, and every
write is on disk before it is acknowledged.`,
		Example: `  toolbus keys init ./deployment --profile single
  toolbus keys init ./deployment --profile durable --host nats-1.example:4222 --host nats-2.example:4222 \
    --host nats-3.example:4222 --etc /etc/toolbus --store /var/lib/toolbus`,
		RunE: func(_ *cobra.Command, args []string) error { return g.initKeys(plan, args[0]) },
	}
	f := cmd.Flags()
	f.StringVar(&plan.Profile, "profile", "single", "single, standard or durable")
	f.StringVar(&plan.Deployment, "name", "toolbus", "name of the deployment, for which its tokens are good")
	f.StringSliceVar(&plan.Hosts, "host", nil,
		"where each server listens for clients, as host:port; the servers reach each other 2000 ports above it; "+
			"by default 127.0.0.1 from port 4222 on")
	f.BoolVar(&plan.Encrypted, "tls", false, "encrypt on loopback, too; beyond it everything is")
	f.StringVar(&plan.Etc, "etc", "", "folder that these files will be in where the servers run; by default DIR")
	f.StringVar(&plan.Store, "store", "", "folder for streams and logs where the servers run; by default DIR/store")
	return cmd
}

func (g *global) initKeys(plan accounts.Plan, dir string) (err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	if plan.Etc == "" {
		plan.Etc = dir
	}
	own := plan.Store == ""
	if own {
		plan.Store = filepath.Join(dir, "store")
	}
	url, err := plan.URL()
	if err != nil {
		return usagef("%v", err)
	}
	files, err := plan.Write(dir)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w\nname another folder, or remove it: tokens of the old deployment are of no use then", err)
	}
	if err == nil && own { // a server opens its log there before it makes the folder
		err = os.MkdirAll(plan.Store, 0o700)
	}
	if err != nil {
		return err
	}
	operator, err := firstCredential(dir)
	if err != nil {
		return err
	}
	said := "secrets: " + filepath.Join(dir, "keys") + "\noperator: " + operator + " (its credential: --credentials)"
	names := []string{}
	for _, f := range files {
		names = append(names, f.Name)
		if filepath.Ext(f.Name) == ".conf" {
			said += "\nserver:  nats-server -c " + filepath.Join(dir, f.Name)
		}
	}
	return g.say(map[string]any{"dir": dir, "url": url, "files": names, "operator": operator}, said+"\nbus:     "+url)
}

package cli

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/auth/tokensource"
)

// Access is the address of a bus, with the files and the tenant for it.
type Access struct {
	Server      string `json:"server"`               // URL, or several separated by commas
	Credentials string `json:"credentials,omitzero"` // file with a token
	CA          string `json:"tls_ca,omitzero"`      // file with the CA certificates for the server's certificate
	Cert        string `json:"tls_cert,omitzero"`    // file with the client certificate
	Key         string `json:"tls_key,omitzero"`     // file with the key of the client certificate
	Tenant      string `json:"tenant,omitzero"`

	dev   string // state folder of `toolbus dev` if this bus is the user's own; then As gets tokens for any caller
	tools string // folder of its tools

	context string // name of the context that names the credentials, or ""
}

// OwnTools returns the folder of the tools if the bus is the user's own `toolbus dev`, or "".
func (a Access) OwnTools() string { return a.tools }

// Into sets the credentials and TLS files of a in o.
func (a Access) Into(o *toolbus.Options) (err error) {
	if (a.Cert == "") != (a.Key == "") {
		return Usagef("--tls-cert and --tls-key belong together: name both files")
	}
	if err := a.CheckCredentials(); err != nil {
		return err
	}
	o.CredentialsFile = a.Credentials
	o.NATS, err = bus.Files{CA: a.CA, Cert: a.Cert, Key: a.Key}.Options()
	return err
}

// CheckCredentials returns an error if the credentials file of a context does not exist.
func (a Access) CheckCredentials() error {
	if a.context == "" || a.Credentials == "" {
		return nil
	}
	if _, err := os.Stat(a.Credentials); errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("credentials of the context %s: %w\nput the file with your token there, or name it by "+
			"--credentials; `toolbus context add %s --replace` saves another name", a.context, err, a.context)
	}
	return nil
}

// Vouch sets tenant and actor of o to those of the credentials of a, if it has any. For an agent, it is an error if o
// names another caller. In other roles Vouch replaces the names without error, because --tenant and --actor may select
// what a command shows. The token of an executor is refused: it may not ask for anything that commands ask for.
func (a Access) Vouch(o *toolbus.ClientOptions, r auth.Role) error {
	if a.Credentials == "" {
		return nil
	}
	if err := a.CheckCredentials(); err != nil {
		return err
	}
	held, err := tokensource.Read(a.Credentials, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	says := held.Principal()
	if says.Role == auth.Executor {
		return Usagef("the credentials are of the executor %s: name those of an operator, an auditor or an agent, by "+
			"--credentials", says.Actor)
	}
	if r == auth.Agent && (o.Tenant != says.Tenant || o.Actor != says.Actor) {
		return Usagef("the credentials are of %s in tenant %s: leave --actor and --tenant out, or name credentials of %s in "+
			"tenant %s", says.Actor, says.Tenant, o.Actor, o.Tenant)
	}
	o.Tenant, o.Actor = says.Tenant, says.Actor
	return nil
}

// Absolute returns a with absolute paths.
func (a Access) Absolute() (Access, error) {
	var failed error
	for _, file := range []*string{&a.Credentials, &a.CA, &a.Cert, &a.Key} {
		if *file == "" {
			continue
		}
		path, err := filepath.Abs(*file)
		*file, failed = path, errors.Join(failed, err)
	}
	return a, failed
}

// over returns a, with empty fields taken from b.
func (a Access) over(b Access) Access {
	if a.Cert == "" && a.Key == "" {
		a.Cert, a.Key = b.Cert, b.Key
	}
	return Access{
		Server: cmp.Or(a.Server, b.Server), Credentials: cmp.Or(a.Credentials, b.Credentials), CA: cmp.Or(a.CA, b.CA),
		Cert: a.Cert, Key: a.Key, Tenant: cmp.Or(a.Tenant, b.Tenant),
	}
}

// Reach determines the Access from flags, the environment, and contexts.
type Reach struct {
	Env   Env
	Given Access // values of flags
	Named string // value of --context
}

// flags is a flag set.
type flags interface {
	StringVar(p *string, name, value, usage string)
}

// Flags adds the flags to f.
func (r *Reach) Flags(f flags) {
	f.StringVar(&r.Given.Server, "server", "",
		"`URL` of the NATS server, or several with commas between them (default: $TOOLBUS_URL, then the "+
			"context, then "+
			toolbus.DefaultURL+")")
	f.StringVar(&r.Named, "context", "",
		"`NAME` of a saved server, credentials, TLS files and tenant, see \"toolbus context\" (default: "+
			"$TOOLBUS_CONTEXT, then the context in use)")
	f.StringVar(&r.Given.Credentials, "credentials", "",
		"`FILE` with your token (default: $TOOLBUS_CREDENTIALS, then the context; neither counts if it names a token of "+
			"your own \"toolbus dev\", where you may do everything)")
	f.StringVar(&r.Given.CA, "tls-ca", "",
		"`FILE` with the CA certificates that may have signed the certificate of the server, in PEM "+
			"(default: those of the machine)")
	f.StringVar(&r.Given.Cert, "tls-cert", "",
		"`FILE` with the client certificate, in PEM; needs --tls-key")
	f.StringVar(&r.Given.Key, "tls-key", "",
		"`FILE` with the key of the client certificate, in PEM")
}

// Check refuses empty flags. An unset variable in a shell leaves a flag empty, and the user does not mean the default
// then. changed reports whether a flag is on the command line.
func (r *Reach) Check(changed func(flag string) bool) error {
	if changed("server") && r.Given.Server == "" {
		return Usagef("--server is empty: name one, or leave the flag out for $TOOLBUS_URL, a context or %s",
			toolbus.DefaultURL)
	}
	for flag, value := range map[string]string{"context": r.Named, "credentials": r.Given.Credentials,
		"tls-ca": r.Given.CA, "tls-cert": r.Given.Cert, "tls-key": r.Given.Key} {
		if changed(flag) && value == "" {
			return Usagef("--%s is empty: name one, or leave the flag out", flag)
		}
	}
	return nil
}

// Find returns the Access of the command line. Flags take precedence over the environment, and both over a context. If
// the command line or the environment names a server, Find ignores the context in use, so that its credentials are not
// sent to that server. It then uses only a context that is named as well. If the server is the user's own `toolbus
// dev`, see [Access.As].
func (r *Reach) Find() (Access, error) {
	env := Access{Server: r.Env.URL, Credentials: r.Env.Credentials}
	named := cmp.Or(r.Named, r.Env.Context)
	switch {
	case r.Named != "":
		env.Server = "" // the flag takes precedence
	case named == "" && r.Given.Server == "" && env.Server == "":
		var err error
		if named, err = r.Env.Contexts().Current(); err != nil {
			return Access{}, err
		}
	}
	found := r.Given.over(env)
	if named != "" {
		of, err := r.Env.Contexts().Read(named)
		if err != nil {
			return Access{}, err
		}
		ofContext := found.Credentials == ""
		if found = found.over(of); ofContext {
			found.context = named
		}
	}
	found.Server = cmp.Or(found.Server, toolbus.DefaultURL)
	if dev, ok := r.Env.devBus(found.Server); ok && r.Given.Credentials == "" &&
		(found.Credentials == "" || isSameFolder(filepath.Dir(found.Credentials), devCredentials(dev.State))) {
		found.dev, found.tools = dev.State, dev.Tools
	}
	return found, nil
}

// isSameFolder reports whether two names lead to one folder. The state of the last `toolbus dev` also has the name
// latest, a symbolic link.
func isSameFolder(a, b string) bool {
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other)
}

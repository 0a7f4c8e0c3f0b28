package bus

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"

	"github.com/nats-io/nats.go"
)

// Files say what a connection trusts and what it shows the server; "" is none.
type Files struct {
	CA        string // certificates, in PEM, of the authorities that the server's may be of; none are those of the machine
	Cert, Key string // certificate that the server is shown, and its key, in PEM
	Token     string // a token on one line; read anew for each connection, and refused if others may read it
}

// Options are those of [Dial]. What the files hold is read, and an error says what is wrong with which.
func (f Files) Options() (o []nats.Option, err error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.CA != "" {
		if conf.RootCAs, err = authorities(f.CA); err != nil {
			return nil, err
		}
	}
	if f.Cert != "" {
		own, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			return nil, fmt.Errorf("TLS certificate: %w\nname one and its key, both in PEM, by --tls-cert and --tls-key", err)
		}
		conf.Certificates = []tls.Certificate{own}
	}
	if f.CA != "" || f.Cert != "" {
		o = append(o, nats.Secure(conf))
	}
	if f.Token != "" {
		if _, err := f.ReadToken(); err != nil {
			return nil, err
		}
		o = append(o, nats.TokenHandler(func() string {
			token, _ := f.ReadToken() // the server says what it is without one
			return token
		}))
	}
	return o, nil
}

func authorities(file string) (*x509.CertPool, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("certificates of authorities: %w\nname a file with them, in PEM, by --tls-ca", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("%s has no certificate in PEM: name a file with those of authorities by --tls-ca", file)
	}
	return pool, nil
}

// ReadToken reads the token anew, since whoever renews it replaces the file.
func (f Files) ReadToken() (string, error) {
	file := f.Token
	info, err := os.Stat(file)
	if err != nil {
		return "", fmt.Errorf("credentials: %w\nname the file with your token by --credentials", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("others may read the credentials in %s: keep it to yourself with `chmod 600 %s`", file, file)
	}
	data, err := os.ReadFile(file)
	token := strings.TrimSpace(string(data))
	if err == nil && (token == "" || strings.ContainsAny(token, " \t\r\n")) {
		err = fmt.Errorf("%s is no credentials file: it has a token on one line, and nothing else", file)
	}
	return token, err
}

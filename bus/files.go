package bus

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"

	"github.com/nats-io/nats.go"
)

// Files names the files with the certificates and the token of a connection. An empty name means no file.
type Files struct {
	CA        string // PEM certificates of the trusted authorities; "" trusts those of the operating system
	Cert, Key string // PEM certificate and private key of the client
	Token     string // holds the token on one line; read for each connection; only its owner may have access
}

// Options reads the files and returns options for [Dial]. The error names the file that cannot be used, and why.
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
			token, _ := f.ReadToken() // without a token, the server refuses the connection and reports why
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

// ReadToken reads the file Token and returns the token. It returns an error if the file is accessible to its group or
// to others, or holds anything besides one token. Read the token again before each use: renewing it replaces the file.
func (f Files) ReadToken() (string, error) {
	file := f.Token
	info, err := os.Stat(file)
	if err != nil {
		return "", fmt.Errorf("credentials: %w\n"+
			"name the file with your token, by --credentials (in a program by CredentialsFile)", err)
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

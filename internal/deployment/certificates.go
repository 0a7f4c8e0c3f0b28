package deployment

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"path"
	"time"
)

// certificateLife is the validity of certificates. A deployment that needs another one uses certificates of its own
// authority.
const certificateLife = 5 * 365 * 24 * time.Hour

// authority is a certificate authority of one deployment.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// certificates returns the TLS files of a deployment: a certificate for each server, one for all clients, and the
// certificates of cluster routes, which a second authority signs. If one authority signed both, a client certificate
// would also permit a route connection, which has all rights. The certificate of clients only keeps unknown clients
// from connecting. Their identity is in the token.
func certificates(deployment string, hosts []string) (files []File, err error) {
	clients, own, err := newAuthority("ca", deployment)
	if err != nil {
		return nil, err
	}
	routes, theirs, err := newAuthority("route-ca", deployment+", servers among themselves")
	if err != nil {
		return nil, err
	}
	files = append(own, theirs...)
	add := func(a *authority, name, host string) {
		made, failed := a.issue(name, host)
		files, err = append(files, made...), errors.Join(err, failed)
	}
	for i, h := range hosts {
		host, _, _ := net.SplitHostPort(h) // Plan.hosts has checked it
		add(clients, serverName(i), host)
		add(routes, serverName(i)+"-route", host)
	}
	add(clients, "client", "")
	return files, err
}

func newAuthority(name, of string) (*authority, []File, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	c, err := certificate("Toolbus deployment " + of)
	if err != nil {
		return nil, nil, err
	}
	c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign
	a := &authority{c, key}
	files, err := a.sign(name, c, key)
	return a, files, err
}

// issue makes a key and a certificate, for the server at host, or for a client if host is "".
func (a *authority) issue(name, host string) ([]File, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	c, err := certificate(name)
	if err != nil {
		return nil, err
	}
	c.KeyUsage, c.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if ip := net.ParseIP(host); ip != nil {
		c.IPAddresses = []net.IP{ip}
	} else if host != "" {
		c.DNSNames = []string{host}
	}
	if host != "" {
		c.ExtKeyUsage = append(c.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	return a.sign(name, c, key)
}

func certificate(name string) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(certificateLife),
	}, nil
}

// sign returns the files of a certificate and its key.
func (a *authority) sign(name string, c *x509.Certificate, key *ecdsa.PrivateKey) ([]File, error) {
	signed, err := x509.CreateCertificate(rand.Reader, c, a.certificate, key.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("certificate of %s: %w", name, err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("key of %s: %w", name, err)
	}
	file := func(ending, kind string, data []byte) File {
		text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data})
		return File{Name: path.Join("tls", name+ending), Text: text, Secret: ending == ".key"}
	}
	return []File{file(".crt", "CERTIFICATE", signed), file(".key", "PRIVATE KEY", private)}, nil
}

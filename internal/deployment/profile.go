package deployment

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Profile is the number of servers of a deployment, and whether they sync each write.
type Profile struct {
	Name       string
	Servers    int
	SyncAlways bool
}

// Profiles returns all profiles. docs/operations.md states which data each may lose.
func Profiles() []Profile {
	return []Profile{{"single", 1, false}, {"single-durable", 1, true}, {"standard", 3, false}, {"durable", 3, true}}
}

// Plan describes the servers of a new deployment.
type Plan struct {
	Deployment string
	Profile    string
	Hosts      []string // host:port of each server for clients; default loopback, ports from 4222 on
	Encrypted  bool     // use TLS on loopback too; other addresses always use it
	Etc        string   // folder of the deployment's files on the machines of the servers
	Store      string   // folder for streams there; each server uses a folder in it that has its name
}

// File is a file of a deployment.
type File struct {
	Name   string // path relative to the folder of the deployment
	Text   []byte
	Secret bool // only its owner may read it
}

// clusterOffset is the difference between the port for routes and the port for clients.
const clusterOffset = 2000

// Servers returns the configuration files of all servers. With TLS, clients and servers authenticate with certificates
// of the deployment's own authorities.
func (p Plan) Servers(keys Public) (files []File, err error) {
	shapes, err := p.shapes()
	if err != nil {
		return nil, err
	}
	for _, s := range shapes {
		text, err := Config(p.Deployment, keys, s)
		if err != nil {
			return nil, err
		}
		files = append(files, File{Name: s.Server + ".conf", Text: []byte(text)})
	}
	return files, nil
}

// ProfileNamed returns the profile with a name.
func ProfileNamed(name string) (Profile, error) {
	all := Profiles()
	at := slices.IndexFunc(all, func(one Profile) bool { return one.Name == name })
	if at < 0 {
		return Profile{}, fmt.Errorf("there is no profile %q: single, single-durable, standard or durable", name)
	}
	return all[at], nil
}

func (p Plan) shapes() (shapes []Shape, err error) {
	profile, hosts, err := p.hosts()
	if err != nil {
		return nil, err
	}
	var routes []string
	for i, h := range hosts {
		host, port, _ := net.SplitHostPort(h) // hosts has checked it
		n, _ := strconv.Atoi(port)
		others := strconv.Itoa(n + clusterOffset)
		routes = append(routes, "nats://"+net.JoinHostPort(host, others))
		if !loopback(h) {
			host = "0.0.0.0"
		}
		name := serverName(i)
		s := Shape{
			Server: name, Listen: net.JoinHostPort(host, port), Store: filepath.Join(p.Store, name),
			SyncAlways: profile.SyncAlways, Log: filepath.Join(p.Store, name+".log"),
		}
		if p.encrypted(hosts) {
			s.TLS = &TLS{Cert: p.in(name + ".crt"), Key: p.in(name + ".key"), CA: p.in("ca.crt")}
		}
		if profile.Servers > 1 {
			s.Cluster = &Cluster{Listen: net.JoinHostPort(host, others)}
			if s.TLS != nil {
				s.Cluster.TLS = &TLS{Cert: p.in(name + "-route.crt"), Key: p.in(name + "-route.key"), CA: p.in("route-ca.crt")}
			}
		}
		shapes = append(shapes, s)
	}
	for i := range shapes {
		if c := shapes[i].Cluster; c != nil {
			c.Routes = routes
		}
	}
	return shapes, nil
}

func (p Plan) encrypted(hosts []string) bool {
	return p.Encrypted || slices.ContainsFunc(hosts, func(h string) bool { return !loopback(h) })
}

func serverName(i int) string { return fmt.Sprint("nats-", i+1) }

// in returns the path of a TLS file on the machine of the server.
func (p Plan) in(name string) string { return filepath.Join(p.Etc, "tls", name) }

// hosts returns the profile, and the address of each of its servers.
func (p Plan) hosts() (profile Profile, hosts []string, err error) {
	if profile, err = ProfileNamed(p.Profile); err != nil {
		return profile, nil, err
	}
	if len(p.Hosts) == 0 {
		for i := range profile.Servers {
			hosts = append(hosts, "127.0.0.1:"+strconv.Itoa(4222+i))
		}
		return profile, hosts, nil
	}
	if len(p.Hosts) != profile.Servers {
		return profile, nil, fmt.Errorf("profile %s has %d servers, not %d", profile.Name, profile.Servers, len(p.Hosts))
	}
	for _, h := range p.Hosts {
		host, port, err := net.SplitHostPort(h)
		if n, bad := strconv.Atoi(port); err != nil || bad != nil || host == "" || n < 1 || n > 65535-clusterOffset {
			return profile, nil, fmt.Errorf("%q is no host:port of a server, such as nats-1.example:4222", h)
		}
	}
	return profile, p.Hosts, nil
}

// URL returns the comma-separated URLs for clients.
func (p Plan) URL() (string, error) {
	_, hosts, err := p.hosts()
	if err != nil {
		return "", err
	}
	scheme := "nats://"
	if p.encrypted(hosts) {
		scheme = "tls://"
	}
	return scheme + strings.Join(hosts, ","+scheme), nil
}

// Write writes a new deployment: its secrets to dir/keys, the configurations of its servers, and with TLS the
// certificates to dir/tls. If secrets exist, Write changes nothing and returns an [fs.ErrExist].
func (p Plan) Write(dir string) (files []File, err error) {
	_, hosts, err := p.hosts()
	if err != nil {
		return nil, err // before anything is written
	}
	in := filepath.Join(dir, "keys")
	keys, err := Create(in, p.Deployment)
	if err != nil {
		return nil, err
	}
	if err := write(filepath.Join(in, fileProfile), []byte(p.Profile)); err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	public, err := keys.Public()
	if err != nil {
		return nil, err
	}
	if files, err = p.Servers(public); err != nil {
		return nil, err
	}
	if p.encrypted(hosts) {
		made, err := certificates(p.Deployment, hosts)
		if err != nil {
			return nil, err
		}
		files = append(files, made...)
	}
	for _, f := range files {
		if err := f.write(dir); err != nil {
			return nil, fmt.Errorf("deployment: %w", err)
		}
	}
	return files, nil
}

func (f File) write(dir string) error {
	name, mode := filepath.Join(dir, f.Name), os.FileMode(0o644)
	if f.Secret {
		mode = 0o600
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = file.Write(f.Text)
	return errors.Join(err, file.Close())
}

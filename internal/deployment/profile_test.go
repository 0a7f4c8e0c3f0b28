package deployment_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/internal/deployment"
	"github.com/seed-018f16cc/toolbus/internal/natsserver"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
)

var update = flag.Bool("update", false, "write the sample configurations of deploy/nats anew")

// sample holds public keys without seeds.
var sample = deployment.Public{
	Issuer:     "AA6T743FGIEYYGFWXIJXXTFQGWRTS3YDUUE62NVCWJIJDFN75ZCAYX2Z",
	XKey:       "XBGJKRGOK3EBS755TVYAI4IVO5K6FBFTZ3Z5LJTTKDF7UCDHZWKVCH7X",
	Dispatcher: "UB4XAOAQAS3NH6Z75NYCN2JFBPWR7QG7BG77EDJPP4LAP45NPXFS4E4J",
	Callout:    "UDAXTAADXEH5NTQILPUAKDHTQIXN2UJDWNWM7PGIXY2CGSPHQL2WUUY6",
	System:     "UCUYH4T23J2ISUYN53MUTDJA46NGS5BNIHQXVILGBWFPG2MLZO733MY6",
}

// The configurations in deploy/nats equal the output of the command except for the keys.
func TestSamples(t *testing.T) {
	for _, profile := range deployment.Profiles() {
		plan := deployment.Plan{Deployment: "sample", Profile: profile.Name, Etc: "/etc/toolbus", Store: "/var/lib/toolbus"}
		if profile.Servers > 1 {
			plan.Hosts = []string{"nats-1.example:4222", "nats-2.example:4222", "nats-3.example:4222"}
		}
		files, err := plan.Servers(sample)
		if err != nil {
			t.Fatal(err)
		}
		if len(files) != profile.Servers {
			t.Errorf("%s has %d servers, want %d", profile.Name, len(files), profile.Servers)
		}
		for _, f := range files {
			name := filepath.Join("../../deploy/nats", profile.Name, f.Name)
			if *update {
				if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(name, f.Text, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := os.ReadFile(name); err != nil || string(got) != string(f.Text) {
				t.Errorf("%s is not what is written (%v): go test ./internal/deployment -run Samples -update", name, err)
			}
		}
	}
}

// Three servers with TLS for routes and clients elect a leader. A client without a certificate cannot connect.
func TestEncryptedCluster(t *testing.T) {
	dir := t.TempDir()
	plan := deployment.Plan{Deployment: "test", Profile: "standard", Etc: dir, Store: t.TempDir(), Encrypted: true}
	for range 3 {
		plan.Hosts = append(plan.Hosts, fmt.Sprint("127.0.0.1:", natstest.HoldPair(t, 2000))) // and its port for routes
	}
	files, err := plan.Write(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := plan.Write(dir); !errors.Is(err, fs.ErrExist) {
		t.Errorf("written again: %v", err)
	}
	for _, f := range files {
		info, err := os.Stat(filepath.Join(dir, f.Name))
		if err != nil || f.Secret != (info.Mode().Perm() == 0o600) {
			t.Errorf("%s: %v, %v", f.Name, info, err)
		}
		if filepath.Ext(f.Name) == ".conf" {
			srv, err := natsserver.Start(natsserver.Options{Config: string(f.Text)})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(srv.Stop)
		}
	}
	url, err := plan.URL()
	if err != nil {
		t.Fatal(err)
	}
	keys, err := deployment.Load(filepath.Join(dir, "keys"))
	if err != nil {
		t.Fatal(err)
	}
	public, err := keys.Public()
	if err != nil {
		t.Fatal(err)
	}
	in := func(name string) string { return filepath.Join(dir, "tls", name) }
	dispatcher, trust := nats.Nkey(public.Dispatcher, keys.Dispatcher.Sign), nats.RootCAs(in("ca.crt"))
	if nc, err := nats.Connect(url, dispatcher, trust); err == nil {
		nc.Close()
		t.Error("let in without a certificate")
	}
	nc, err := nats.Connect(url, dispatcher, trust, nats.ClientCert(in("client.crt"), in("client.key")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	replicated(t, js)
	// A client certificate does not permit a route connection, which would have all rights.
	pair, err := tls.LoadX509KeyPair(in("client.crt"), in("client.key"))
	if err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(plan.Hosts[0])
	if err != nil {
		t.Fatal(err)
	}
	n, _ := strconv.Atoi(port)
	conn, err := net.Dial("tcp", net.JoinHostPort(host, strconv.Itoa(n+2000)))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	route := tls.Client(conn, &tls.Config{Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true})
	if _, err := fmt.Fprint(route, "CONNECT {}\r\nPING\r\n"); err == nil {
		if said, err := bufio.NewReader(route).ReadString('\n'); err == nil {
			t.Errorf("a client was let in as a server: %s", said)
		}
	}
}

func TestWrongPlans(t *testing.T) {
	for name, plan := range map[string]deployment.Plan{
		"no profile":   {Deployment: "x", Profile: "huge"},
		"no name":      {Profile: "single"},
		"two of three": {Deployment: "x", Profile: "standard", Hosts: []string{"a:1", "b:1"}},
		"no port":      {Deployment: "x", Profile: "single", Hosts: []string{"a"}},
		"a large port": {Deployment: "x", Profile: "single", Hosts: []string{"a:65000"}},
	} {
		dir := filepath.Join(t.TempDir(), "d")
		if _, err := plan.Write(dir); err == nil {
			t.Error("written:", name)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Error("something was written:", name)
		}
	}
}

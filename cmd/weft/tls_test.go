package main

// These tests run the commands against a server as it stands in a network: with TLS
// by an authority of its own, and with a user for each role, by password and by
// credentials file.

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/weft-fabric/weft/internal/app"
	"github.com/weft-fabric/weft/internal/roles"
)

// authority signs certificates; its own is in the file ca.
type authority struct {
	t    *testing.T
	dir  string
	ca   string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ours"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	a.key = a.newKey()
	a.ca = a.write("ca.pem", "CERTIFICATE", a.sign(a.cert, a.key))
	return a
}

func (a *authority) newKey() *ecdsa.PrivateKey {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	return key
}

func (a *authority) sign(template *x509.Certificate, key *ecdsa.PrivateKey) []byte {
	a.t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return der
}

func (a *authority) write(name, kind string, der []byte) string {
	a.t.Helper()
	return writeFile(a.t, filepath.Join(a.dir, name), string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})))
}

// issue makes a certificate for 127.0.0.1, for servers and clients alike.
func (a *authority) issue(name string) (cert, key string) {
	a.t.Helper()
	own := a.newKey()
	der, err := x509.MarshalECPrivateKey(own)
	if err != nil {
		a.t.Fatal(err)
	}
	return a.write(name+".pem", "CERTIFICATE", a.sign(&x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: a.cert.NotBefore, NotAfter: a.cert.NotAfter,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, own)), a.write(name+".key", "EC PRIVATE KEY", der)
}

// tlsBlock is what nats-server needs to have TLS.
func (a *authority) tlsBlock(more string) string {
	cert, key := a.issue("server")
	return fmt.Sprintf("tls { cert_file: %q, key_file: %q, ca_file: %q, %s }\n", cert, key, a.ca, more)
}

// wantLine fails unless the program says one line and no more, with those parts.
func (r result) wantLine(t *testing.T, code int, parts ...string) {
	t.Helper()
	r.want(t, code, parts...)
	if strings.Count(r.err, "\n") != 1 || !strings.HasPrefix(r.err, "weft: ") || r.out != "" {
		t.Errorf("it is not one line of stderr: %q %q", r.err, r.out)
	}
}

// runsAJob has a job enqueued by the backend's flags, run by the runner's and read by
// the viewer's, each as a process.
func runsAJob(t *testing.T, flags func(roles.Role) []string) {
	t.Helper()
	call := func(r roles.Role, args ...string) result {
		return spawn(t, append(args, flags(r)...)...).wait()
	}
	call(roles.Backend, "enqueue", "hash", "--input-ref", "data:,x", "--id", "one").want(t, app.ExitDone)
	work := spawn(t, append(append([]string{"work", "hash"}, flags(roles.Runner)...), "--", "echo", "done")...)
	call(roles.Backend, "job", "wait", "one", "--timeout", patience.String()).want(t, app.ExitDone)
	if out := call(roles.Viewer, "job", "get", "one", "--json").want(t, app.ExitDone).out; !strings.Contains(out, `"state":"succeeded"`) {
		t.Errorf("the viewer reads %s", out)
	}
	work.signal(syscall.SIGTERM)
	work.wait().want(t, app.ExitDone)
}

func TestTLSWithPasswords(t *testing.T) {
	t.Parallel()
	ours, theirs := newAuthority(t), newAuthority(t)
	text, err := os.ReadFile(printed(t, "--stage", "hash"))
	if err != nil {
		t.Fatal(err)
	}
	config := writeFile(t, filepath.Join(ours.dir, "nats.conf"), string(text)+ours.tlsBlock(""))
	serve := spawn(t, "serve", "--nats-config", config, "--data", t.TempDir(), "--listen", "127.0.0.1:-1",
		"--user", "weft-operator", "--password", rolePassword, "--role", "operator")
	url := serve.url()
	who := func(r roles.Role) []string {
		return []string{"--server", url, "--user", "weft-" + string(r), "--password", rolePassword, "--role", string(r)}
	}
	runsAJob(t, func(r roles.Role) []string { return append(who(r), "--tlsca", ours.ca) })

	list := func(more ...string) result { return weft(t, "", append([]string{"job", "ls"}, more...)...) }
	viewer := who(roles.Viewer)
	missing := filepath.Join(ours.dir, "missing.pem")
	list(append(viewer, "--tlsca", theirs.ca)...).wantLine(t, app.ExitNoServer, url[strings.LastIndex(url, "127"):], "certificate", "--tlsca")
	list(viewer...).wantLine(t, app.ExitNoServer, "certificate", "--tlsca")
	list(append(viewer, "--tlsca", missing)...).wantLine(t, app.ExitUsage, "--tlsca", missing)
	list(append(viewer, "--tlsca", config)...).wantLine(t, app.ExitUsage, "--tlsca", config)
	list("--server", url, "--tlsca", ours.ca).wantLine(t, app.ExitNoServer, "refuses who asks", "--creds, --user or --nkey")
	list("--server", url, "--tlsca", ours.ca, "--user", "weft-viewer", "--password", "wrong").wantLine(t, app.ExitNoServer, "refuses who asks")
	weft(t, "", append([]string{"enqueue", "hash", "--input-ref", "data:,x", "--tlsca", ours.ca}, viewer...)...).
		wantLine(t, app.ExitRefused, "permission refused", "weft.work.hash.may.enqueue")
	serve.signal(syscall.SIGTERM)
	serve.wait().want(t, app.ExitDone, "stopping")
}

// TestTLSOfBothSides: the server asks for a certificate too, before it says a word.
func TestTLSOfBothSides(t *testing.T) {
	t.Parallel()
	ours := newAuthority(t)
	config := writeFile(t, filepath.Join(ours.dir, "nats.conf"), ours.tlsBlock("verify: true, handshake_first: true"))
	serve := spawn(t, "serve", "--nats-config", config, "--data", t.TempDir(), "--listen", "127.0.0.1:-1")
	cert, key := ours.issue("client")
	flags := []string{"--server", serve.url(), "--tlsca", ours.ca, "--tlsfirst"}
	mutual := append(append([]string{}, flags...), "--tlscert", cert, "--tlskey", key)
	runsAJob(t, func(roles.Role) []string { return mutual })
	weft(t, "", append([]string{"job", "ls"}, flags...)...).wantLine(t, app.ExitNoServer, "certificate")
	missing := filepath.Join(ours.dir, "missing.pem")
	weft(t, "", append([]string{"job", "ls", "--tlscert", missing, "--tlskey", key}, flags...)...).wantLine(t, app.ExitUsage, "--tlscert", missing)
}

// operatorMode is a server whose account and users are JWTs. Each role is a scoped
// signing key of the account with the permissions that weft auth roles prints: in a
// user's own JWT they would be longer than the line with which a client begins.
type operatorMode struct {
	t       *testing.T
	account string
	signers map[roles.Role]nkeys.KeyPair
	config  string
	dir     string
}

func newOperatorMode(t *testing.T) *operatorMode {
	t.Helper()
	m := &operatorMode{t: t, dir: t.TempDir(), signers: map[roles.Role]nkeys.KeyPair{}}
	operator, operatorID := m.pair(nkeys.CreateOperator)
	_, systemID := m.pair(nkeys.CreateAccount)
	_, accountID := m.pair(nkeys.CreateAccount)
	m.account = accountID
	limited := jwt.NewAccountClaims(accountID)
	limited.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: -1, DiskStorage: -1, Streams: -1, Consumer: -1}
	for _, r := range roles.All {
		limited.SigningKeys.AddScopedSigner(m.scope(r))
	}
	top := jwt.NewOperatorClaims(operatorID)
	top.SystemAccount = systemID
	text := fmt.Sprintf("operator: %s\nsystem_account: %s\nresolver: MEMORY\nresolver_preload: { %s: %s, %s: %s }\n",
		m.encode(top, operator), systemID, systemID, m.encode(jwt.NewAccountClaims(systemID), operator), accountID, m.encode(limited, operator))
	m.config = writeFile(t, filepath.Join(m.dir, "nats.conf"), text)
	return m
}

func (m *operatorMode) pair(create func() (nkeys.KeyPair, error)) (nkeys.KeyPair, string) {
	m.t.Helper()
	pair, err := create()
	if err != nil {
		m.t.Fatal(err)
	}
	id, err := pair.PublicKey()
	if err != nil {
		m.t.Fatal(err)
	}
	return pair, id
}

func (m *operatorMode) encode(claims jwt.Claims, by nkeys.KeyPair) string {
	m.t.Helper()
	text, err := claims.Encode(by)
	if err != nil {
		m.t.Fatal(err)
	}
	return text
}

// scope is the signing key of a role.
func (m *operatorMode) scope(r roles.Role) *jwt.UserScope {
	m.t.Helper()
	scope := jwt.NewUserScope()
	m.signers[r], scope.Key = m.pair(nkeys.CreateAccount)
	scope.Role = string(r)
	p := roles.Of(roles.Config{Namespace: "weft", Stages: []string{"hash"}}, r)
	scope.Template.Pub.Allow, scope.Template.Pub.Deny = p.Publish.Allow, p.Publish.Deny
	scope.Template.Sub.Allow, scope.Template.Sub.Deny = p.Subscribe.Allow, p.Subscribe.Deny
	if r == roles.Operator {
		scope.Template.Resp = &jwt.ResponsePermission{MaxMsgs: 1, Expires: 2 * time.Minute}
	}
	return scope
}

// creds writes the credentials of a role's user.
func (m *operatorMode) creds(r roles.Role) string {
	m.t.Helper()
	user, id := m.pair(nkeys.CreateUser)
	claims := jwt.NewUserClaims(id)
	claims.IssuerAccount = m.account
	claims.SetScoped(true)
	seed, err := user.Seed()
	if err != nil {
		m.t.Fatal(err)
	}
	text, err := jwt.FormatUserConfig(m.encode(claims, m.signers[r]), seed)
	if err != nil {
		m.t.Fatal(err)
	}
	return writeFile(m.t, filepath.Join(m.dir, string(r)+".creds"), string(text))
}

func TestCredentialsOfRoles(t *testing.T) {
	t.Parallel()
	m := newOperatorMode(t)
	serve := spawn(t, "serve", "--nats-config", m.config, "--data", t.TempDir(), "--listen", "127.0.0.1:-1",
		"--creds", m.creds(roles.Operator), "--role", "operator")
	url := serve.url()
	flags := func(r roles.Role) []string {
		return []string{"--server", url, "--creds", m.creds(r), "--role", string(r)}
	}
	runsAJob(t, flags)
	list := []string{"job", "ls", "--server", url}
	missing := filepath.Join(m.dir, "missing.creds")
	weft(t, "", list...).wantLine(t, app.ExitNoServer, "refuses who asks", "--creds, --user or --nkey")
	weft(t, "", append(list, "--creds", missing)...).wantLine(t, app.ExitUsage, "--creds", missing)
	weft(t, "", append(list, "--creds", m.config)...).wantLine(t, app.ExitUsage, "--creds", m.config)
	stranger := newOperatorMode(t)
	weft(t, "", append(list, "--creds", stranger.creds(roles.Viewer), "--role", "viewer")...).wantLine(t, app.ExitNoServer, "refuses who asks")
	weft(t, "", append([]string{"enqueue", "hash", "--input-ref", "data:,x"}, flags(roles.Runner)...)...).
		wantLine(t, app.ExitRefused, "permission refused", "weft.work.hash.may.enqueue")
}

package web_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/resolver/web"
)

func newResolver(t *testing.T, o web.Options) *web.Resolver {
	t.Helper()
	r, err := web.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// serve starts a server and gives its URL and host.
func serve(t *testing.T, handler http.HandlerFunc) (url, host string) {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return s.URL, strings.TrimPrefix(s.URL, "http://")
}

// read opens and reads a reference to its end.
func read(t *testing.T, r *web.Resolver, ref string) (string, error) {
	t.Helper()
	body, err := r.Open(t.Context(), ref)
	if err != nil {
		return "", err
	}
	defer body.Close()
	data, err := io.ReadAll(body)
	return string(data), err
}

// wantRefused fails unless the error lasts, or passes, and says no secret.
func wantRefused(t *testing.T, what string, err error, lasts bool, says string) {
	t.Helper()
	if err == nil || errors.Is(err, job.ErrUnopenable) != lasts || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("%s: %v; want %q, lasting %t", what, err, says, lasts)
	}
}

func TestOnlyAllowedHostsAreAsked(t *testing.T) {
	t.Parallel()
	r := newResolver(t, web.Options{Hosts: []string{"a.example", "b.example:8080", "*.c.example", "[::1]:99"}, Silence: 10 * time.Second})
	const refused, bad = "not among those", "it is not http"
	for ref, says := range map[string]string{
		"http://other.example/?s3cret":    refused,
		"http://a.example:81/":            refused,
		"http://a.example@evil.example/":  "has a user",
		"http://u:s3cret@a.example/":      "has a user",
		"http://xa.example/":              refused,
		"http://a.example.evil.example/":  refused,
		"http://b.example/":               refused,
		"http://c.example/":               refused,
		"http://xc.example/":              refused,
		"http://169.254.169.254/latest":   refused,
		"http://[::1]/":                   refused,
		"http://0x7f.1/":                  refused,
		"https://a.example:80/":           refused,
		"http:a.example":                  bad,
		"http:///x":                       bad,
		"file:///etc/passwd":              bad,
		"http://a.example/%zz?s3cret":     "no URL",
		"http://a.example\\@evil.example": "no URL",
	} {
		_, err := r.Open(t.Context(), ref)
		wantRefused(t, ref, err, true, says)
	}
	for _, host := range []string{"", "*", "*.", "http://h", "h/x", "u@h", "a*.h", "h:x"} {
		if web.CheckHost(host) == nil {
			t.Errorf("host %q was accepted", host)
		}
	}
}

func TestAnswersAreTakenForWhatTheyMean(t *testing.T) {
	t.Parallel()
	url, host := serve(t, func(w http.ResponseWriter, q *http.Request) {
		code, _ := strconv.Atoi(strings.Trim(q.URL.Path, "/"))
		if q.Header.Get("Authorization")+q.Header.Get("Cookie")+q.Header.Get("Referer") != "" {
			code = http.StatusTeapot
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, "hello")
	})
	r := newResolver(t, web.Options{Hosts: []string{host}})
	if got, err := read(t, r, url+"/200?token=s3cret#part"); got != "hello" || err != nil {
		t.Errorf("200: %q, %v", got, err)
	}
	for code, lasts := range map[int]bool{400: true, 404: true, 410: true, 204: true, 206: true, 401: false, 403: false, 408: false, 429: false, 500: false, 503: false} {
		_, err := read(t, r, fmt.Sprintf("%s/%d?token=s3cret", url, code))
		wantRefused(t, strconv.Itoa(code), err, lasts, strconv.Itoa(code))
		if absent := code == http.StatusNotFound || code == http.StatusGone; errors.Is(err, job.ErrAbsent) != absent {
			t.Errorf("%d: %v; want that it is absent: %t", code, err, absent)
		}
	}
}

func TestRedirectsStayWithinWhatIsAllowed(t *testing.T) {
	t.Parallel()
	var away string
	handler := func(w http.ResponseWriter, q *http.Request) {
		n, err := strconv.Atoi(strings.Trim(q.URL.Path, "/"))
		switch {
		case err != nil:
			http.Redirect(w, q, away, http.StatusFound)
		case n > 0:
			http.Redirect(w, q, fmt.Sprintf("/%d?token=s3cret", n-1), http.StatusFound)
		default:
			_, _ = io.WriteString(w, "hello"+q.Header.Get("Referer"))
		}
	}
	other, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) { t.Error("a host was asked that is not allowed") })
	away = other + "/?token=s3cret"
	url, host := serve(t, handler)
	r := newResolver(t, web.Options{Hosts: []string{host}, MaxRedirects: 3})
	if got, err := read(t, r, url+"/3?token=s3cret"); got != "hello" || err != nil {
		t.Errorf("three redirects: %q, %v", got, err)
	}
	_, err := read(t, r, url+"/4?token=s3cret")
	wantRefused(t, "four redirects", err, true, "more than 3 times")
	_, err = read(t, r, url+"/away?token=s3cret")
	wantRefused(t, "to another host", err, true, "redirected: cannot be opened: host")
	_, err = read(t, newResolver(t, web.Options{Hosts: []string{host}, MaxRedirects: -1}), url+"/1")
	wantRefused(t, "none allowed", err, true, "more than 0 times")
}

func TestBodiesAreBoundedAndWhole(t *testing.T) {
	t.Parallel()
	url, host := serve(t, func(w http.ResponseWriter, q *http.Request) {
		switch q.URL.Path {
		case "/told":
			w.Header().Set("Content-Length", "11")
		case "/short":
			w.Header().Set("Content-Length", "10")
			_, _ = io.WriteString(w, "12345")
			return
		}
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		_, _ = io.WriteString(w, "12345678901"[:min(11, len(q.URL.Path)+6)])
	})
	r := newResolver(t, web.Options{Hosts: []string{host}, MaxSize: 10})
	if got, err := read(t, r, url+"/abc"); got != "1234567890" || err != nil {
		t.Errorf("as much as is allowed: %q, %v", got, err)
	}
	_, err := read(t, r, url+"/told")
	wantRefused(t, "announced", err, true, "11 bytes, more than 10")
	_, err = read(t, r, url+"/chunked")
	wantRefused(t, "chunked", err, true, "more than 10 bytes")
	_, err = read(t, r, url+"/short")
	wantRefused(t, "broken off", err, false, "unexpected EOF")
}

func TestASilentServerIsGivenUp(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	url, host := serve(t, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/begun" {
			_, _ = io.WriteString(w, "hel")
			w.(http.Flusher).Flush()
		}
		<-over
	})
	t.Cleanup(func() { close(over) })
	r := newResolver(t, web.Options{Hosts: []string{host}, Silence: 200 * time.Millisecond})
	for _, path := range []string{"/never", "/begun"} {
		_, err := read(t, r, url+path+"?token=s3cret")
		wantRefused(t, path, err, false, "the server is silent for 200ms")
	}
}

func TestAServerThatIsAwayMayComeBack(t *testing.T) {
	t.Parallel()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host := closed.Addr().String()
	_ = closed.Close()
	_, err = read(t, newResolver(t, web.Options{Hosts: []string{host}}), "http://"+host+"/?token=s3cret")
	wantRefused(t, "away", err, false, "refused")
}

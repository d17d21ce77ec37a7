package main

import (
	"fmt"
	"io"
	"net/url"
	"os"
	"regexp"
	"strings"

	"github.com/vincent-petithory/dataurl"
)

// maxSourceBytes bounds a submission's source text.
const maxSourceBytes = 256 << 10

// uriScheme needs two letters at least, for a scheme is never so short and a
// path may well begin with one letter and a colon.
var uriScheme = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9+.-]+):`)

// openSource returns the source text that an input_ref names. Every failure is
// permanent: the reference is part of the job and will read the same next time.
func openSource(ref string) ([]byte, error) {
	source, err := readRef(ref)
	switch {
	case err != nil:
		return nil, permanentf("input_ref %s cannot be opened: %w", abbreviate(ref), err)
	case len(source) > maxSourceBytes:
		return nil, permanentf("input_ref %s holds more than %d bytes, the most a submission may have", abbreviate(ref), maxSourceBytes)
	}
	return source, nil
}

func readRef(ref string) ([]byte, error) {
	if ref == "" {
		return nil, fmt.Errorf("it is empty; give a path, a file: URI or a data: URI")
	}
	match := uriScheme.FindStringSubmatch(ref)
	if match == nil {
		return readSourceFile(ref)
	}
	switch scheme := strings.ToLower(match[1]); scheme {
	case "data":
		return decodeData(ref)
	case "file":
		path, err := filePath(ref)
		if err != nil {
			return nil, err
		}
		return readSourceFile(path)
	default:
		return nil, fmt.Errorf("scheme %q is not supported; give a path, a file: URI or a data: URI", scheme)
	}
}

// decodeData decodes an RFC 2397 URI. The scheme is put in lower case first,
// which is the only spelling the decoder takes.
func decodeData(ref string) ([]byte, error) {
	decoded, err := dataurl.DecodeString("data" + ref[len("data"):])
	if err != nil {
		return nil, err
	}
	return decoded.Data, nil
}

// filePath takes file:///absolute, file:/absolute and the common file:relative.
func filePath(ref string) (string, error) {
	uri, err := url.Parse(ref)
	switch {
	case err != nil:
		return "", err
	case uri.Host != "" && uri.Host != "localhost":
		return "", fmt.Errorf("a file: URI must name this host, not %q; write file:///absolute/path or file:relative/path", uri.Host)
	case uri.Opaque != "":
		return url.PathUnescape(uri.Opaque)
	default:
		return uri.Path, nil
	}
}

// readSourceFile reads regular files alone, for opening a named pipe could wait
// for ever.
func readSourceFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("it is not a regular file")
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, maxSourceBytes+1))
}

// abbreviate quotes a reference for an error line, where a whole data: URI
// would hide the reason.
func abbreviate(ref string) string {
	const most = 80
	if len(ref) > most {
		return fmt.Sprintf("%.*q...", most, ref)
	}
	return fmt.Sprintf("%q", ref)
}

/* A CUDA compiler for the emulation: makes C++ of a .cu file and hands it to a C++ compiler.

       nvcc --rewrite FILE            the C++ on standard output
       nvcc … FILE.cu … -o LIBRARY    what nvcc's command line asks for, as far as a C++ compiler can

   In the second form the library's kernels run on the stand-in driver, and GPU code from `one.fatbin` in the include folder
   stands in it as nvcc's would, so that what inspects a library finds what it looks for. */
#include <cstdio>
#include <cstdlib>
#include <algorithm>
#include <fstream>
#include <iostream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

[[noreturn]] static void refuse(const std::string &why)
{
    std::cerr << "nvcc fatal   : " << why << "\n";
    exit(1);
}

static std::string read_file(const std::string &path)
{
    std::ifstream file(path, std::ios::binary);
    if (!file)
        refuse("Don't know what to do with '" + path + "'");
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

/* Just past the bracket that closes the one at `open`. */
static size_t past_closing(const std::string &text, size_t open)
{
    int depth = 0;
    for (size_t at = open; at < text.size(); at++) {
        depth += (text[at] == '(') - (text[at] == ')');
        if (depth == 0)
            return at + 1;
    }
    refuse("a launch without an end");
}

/* `KERNEL<<<SHAPE>>>(ARGUMENTS)` as a call of `emu::Launch`, which runs the kernel once for each thread. Arguments are
   evaluated where the launch stands. */
static std::string without_launches(std::string text)
{
    for (size_t middle; (middle = text.find("<<<")) != std::string::npos;) {
        const size_t end = text.find(">>>", middle);
        size_t start = middle;
        while (start > 0 && isspace((unsigned char)text[start - 1]))
            start--;
        if (start > 0 && text[start - 1] == '>') /* the arguments of a template */
            for (int depth = 0;;) {
                start--;
                depth += (text[start] == '>') - (text[start] == '<');
                if (depth == 0 || start == 0)
                    break;
            }
        while (start > 0 && (isalnum((unsigned char)text[start - 1]) || text[start - 1] == '_' || text[start - 1] == ':'))
            start--;
        const size_t open = end == std::string::npos ? end : text.find('(', end);
        if (open == std::string::npos)
            refuse("a launch without arguments");
        const size_t close = past_closing(text, open);
        text = text.substr(0, start) + "emu::Launch(" + text.substr(middle + 3, end - middle - 3) + ").with" +
               text.substr(open, close - open) + "([=](auto... ks_of_launch) { " + text.substr(start, middle - start) +
               "(ks_of_launch...); })" + text.substr(close);
    }
    return text;
}

/* Between the marks stand instructions in PTX; `warp_matrix.h` has the same in C++. Lines keep their numbers. */
static std::string without_ptx(const std::string &text)
{
    const std::string begin = "/* BEGIN PTX", end = "END PTX */";
    std::string out;
    size_t at = 0;
    for (size_t from; (from = text.find(begin, at)) != std::string::npos;) {
        size_t to = text.find(end, from);
        if (to == std::string::npos)
            refuse("BEGIN PTX without END PTX");
        to += end.size();
        out += text.substr(at, from - at) + "#include \"warp_matrix.h\"";
        out.append((size_t)std::count(text.begin() + (long)from, text.begin() + (long)to, '\n'), '\n');
        at = to;
    }
    return out + text.substr(at);
}

static std::string rewritten(const std::string &path)
{
    static const std::regex dynamic(R"(extern\s+__shared__\s+(?:(?:alignas|__align__)\(\d+\)\s+)?(\w+)\s+(\w+)\[\])");
    const std::string text = std::regex_replace(read_file(path), dynamic, "$1 *$2 = ($1 *)emu::dynamic_shared()");
    return "#line 1 \"" + path + "\"\n" + without_launches(without_ptx(text));
}

static std::string folder_of(const std::string &path)
{
    const size_t slash = path.rfind('/');
    return slash == std::string::npos ? "." : path.substr(0, slash);
}

/* What nvcc adds to every library, with the GPU code of another. */
static std::string start_up(const std::string &fatbin)
{
    return "\n#line 1 \"start-up code\"\n"
           "__asm__(\".section .nv_fatbin,\\\"a\\\"\\n.balign 8\\nks_fatbin: .incbin \\\"" + fatbin + "\\\"\\n.previous\");\n"
           "extern char ks_fatbin[] __attribute__((visibility(\"hidden\")));\n"
           "static const struct { int magic, version; const void *data, *rest; } ks_record\n"
           "    __attribute__((section(\".nvFatBinSegment\"), aligned(8))) = {0x466243b1, 1, ks_fatbin, nullptr};\n"
           "namespace emu { __attribute__((visibility(\"hidden\"))) Machine *the_machine; }\n"
           "__attribute__((constructor)) static void ks_start() {\n"
           "    emu::the_machine = (emu::Machine *)__cudaRegisterFatBinary((void *)&ks_record);\n}\n";
}

static int run(std::vector<std::string> &command)
{
    std::vector<char *> args;
    for (auto &word : command)
        args.push_back(word.data());
    args.push_back(nullptr);
    pid_t child;
    int status = 0;
    if (posix_spawnp(&child, args[0], nullptr, nullptr, args.data(), environ) != 0)
        refuse("cannot run " + command[0]);
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static void dry_run(const std::string &root)
{
    std::cerr << "#$ TOP=" << root << "/bin/..\n#$ CICC_PATH=" << root << "/nvvm/bin\n#$ NVVMIR_LIBRARY_DIR=" << root
              << "/nvvm/libdevice\n#$ PATH=" << root << "/bin:/usr/bin\n#$ INCLUDES=\"-I" << root
              << "/include\"\n#$ LIBRARIES=  \"-L" << root << "/lib64\"\n";
}

static std::string root_of_this()
{
    char self[4096];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self);
    if (length <= 0)
        refuse("does not know where it is");
    return folder_of(folder_of(std::string(self, (size_t)length)));
}

int main(int count, char **words)
{
    const std::vector<std::string> args(words + 1, words + count);
    const std::string first = args.empty() ? "" : args[0];
    if (first == "--rewrite" && args.size() == 2) {
        std::cout << rewritten(args[1]);
        return 0;
    }
    const std::string root = root_of_this();
    if (first == "--version") {
        std::cout << "nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release 13.0, V13.0.0\n";
        return 0;
    }
    if (first == "--dryrun") {
        dry_run(root);
        return 0;
    }

    std::string compiler = "c++", source, output, dependencies, keep = ".";
    std::vector<std::string> passed;
    for (size_t i = 0; i < args.size(); i++) {
        const std::string &a = args[i];
        const auto next = [&] { return i + 1 < args.size() ? args[++i] : (refuse("a flag without its value: " + a), std::string()); };
        if (a == "-ccbin") compiler = next();
        else if (a == "-o") output = next();
        else if (a == "--keep-dir") keep = next();
        else if (a == "-Xcompiler") passed.push_back(next());
        else if (a == "-Xlinker") passed.push_back("-Wl," + next());
        else if (a == "-Xptxas" || a == "--cudart" || a == "-gencode") next();
        else if (a == "-MF") dependencies = next();
        else if (a == "-I" || a == "-D" || a == "-isystem") { passed.push_back(a); passed.push_back(next()); }
        else if (a == "-lineinfo" || a == "--keep" || a == "--use_fast_math" || a.rfind("-gencode", 0) == 0 ||
                 a.rfind("--compress-mode", 0) == 0 || a.rfind("-arch", 0) == 0) continue;
        else if (a.size() > 3 && a.substr(a.size() - 3) == ".cu") source = a;
        else passed.push_back(a);
    }
    if (source.empty() || output.empty())
        refuse("No input files specified");
    const std::string made = keep + "/emulated.cpp";
    std::ofstream(made) << rewritten(source) << start_up(root + "/include/one.fatbin");
    std::vector<std::string> command = {compiler, "-x", "c++", made, "-x", "none", "-w", "-U_FORTIFY_SOURCE", "-ffp-contract=off",
                                        "-DKS_STAND_IN", "-iquote", folder_of(source), "-include",
                                        root + "/include/cuda_runtime.h", "-I", root + "/include", "-o", output};
    command.insert(command.end(), passed.begin(), passed.end());
    if (!dependencies.empty())
        command.insert(command.end(), {"-MF", dependencies});
    const int answer = run(command);
    if (answer == 0 && !dependencies.empty()) {
        // What was read is the .cu file, not what was made of it.
        std::string text = read_file(dependencies);
        for (size_t at = 0; (at = text.find(made, at)) != std::string::npos; at += source.size())
            text.replace(at, made.size(), source);
        std::ofstream(dependencies) << text;
    }
    return answer;
}

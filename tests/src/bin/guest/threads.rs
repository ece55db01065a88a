//! Acts that need unsafe code: threads against their leader, faults, shared memory, seccomp.

use std::{
    ffi::{CString, c_void},
    fs::File,
    io::Write as _,
    os::fd::AsRawFd as _,
    ptr, thread,
    time::Duration,
};

use anyhow::{Result, ensure};

/// Writes to address 0.
pub(crate) fn fault() {
    // SAFETY: none. The write faults, which is the purpose.
    unsafe { ptr::without_provenance_mut::<u8>(8).write_volatile(1) };
}

/// Writes to a mapped page beyond the end of its file.
pub(crate) fn bus_error() -> Result<()> {
    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open("/tmp/bus-error")?;
    file.set_len(4096)?;
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
    // SAFETY: this is a new mapping of an open file. No other memory is touched.
    let page = unsafe {
        libc::mmap(
            ptr::null_mut(),
            4096,
            protection,
            flags,
            file.as_raw_fd(),
            0,
        )
    };
    ensure!(
        page != libc::MAP_FAILED,
        "mmap: {}",
        std::io::Error::last_os_error()
    );
    file.set_len(0)?;
    // SAFETY: none. The write faults, which is the purpose.
    unsafe { page.cast::<u8>().write_volatile(1) };
    Ok(())
}

/// Ends the leader's thread. Another thread ends the process later.
pub(crate) fn leader_exits(code: i32) {
    // The stat line of the whole process is the leader's.
    let leader = || std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    thread::spawn(move || {
        while !leader().contains(") Z ") {
            thread::sleep(Duration::from_millis(5));
        }
        std::process::exit(code)
    });
    // SAFETY: exit(2) ends this thread alone, and nothing of it is used afterwards.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
}

/// Lets a thread that is not the leader execute another program.
pub(crate) fn thread_execs(code: &str) -> Result<()> {
    let command = [
        c"/init".to_owned(),
        c"act".to_owned(),
        c"exit".to_owned(),
        CString::new(code)?,
    ];
    let (read, mut write) = std::io::pipe()?;
    // The cue for the next program.
    write.write_all(b"\n")?;
    thread::spawn(move || {
        let mut words: Vec<_> = command.iter().map(|word| word.as_ptr()).collect();
        words.push(ptr::null());
        // SAFETY: the descriptors are open. The strings and the list end with a null and outlive
        // the call.
        unsafe {
            libc::dup2(read.as_raw_fd(), 0);
            libc::execv(words[0], words.as_ptr())
        };
    });
    loop {
        thread::sleep(Duration::from_secs(600));
    }
}

extern "C" fn wait_for_the_end(_: *mut c_void) -> i32 {
    loop {
        // SAFETY: pause(2) takes nothing and touches no memory.
        unsafe { libc::pause() };
    }
}

/// Starts a process that shares this one's memory (`CLONE_VM`).
pub(crate) fn share_memory() -> Result<()> {
    let stack = vec![0u8; 64 << 10].leak();
    // SAFETY: the stack is never freed and has no other user. The function touches no other memory.
    let pid = unsafe {
        let top = stack.as_mut_ptr().add(stack.len() - 64);
        libc::clone(
            wait_for_the_end,
            top.cast(),
            libc::CLONE_VM | libc::SIGCHLD,
            ptr::null_mut(),
        )
    };
    ensure!(pid > 0, "clone: {}", std::io::Error::last_os_error());
    Ok(())
}

/// Installs a filter that kills the process when it calls getppid(2).
pub(crate) fn seccomp() -> Result<()> {
    const LOAD: u16 = 0x20;
    const JUMP_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut steps = [
        step(LOAD, 0, 0, 0),
        step(JUMP_EQUAL, 0, 1, u32::try_from(libc::SYS_getppid)?),
        step(RETURN, 0, 0, libc::SECCOMP_RET_KILL_PROCESS),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: 4,
        filter: steps.as_mut_ptr(),
    };
    // SAFETY: the program outlives the calls.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        libc::prctl(
            libc::PR_SET_SECCOMP,
            libc::SECCOMP_MODE_FILTER,
            &raw const program,
            0,
            0,
        );
        libc::syscall(libc::SYS_getppid);
    }
    Ok(())
}

fn trace(request: libc::c_uint, pid: i32, data: i32) -> Result<()> {
    // SAFETY: these requests take numbers, and write nothing in this process.
    let failed = unsafe { libc::ptrace(request, pid, 0, libc::c_long::from(data)) } != 0;
    ensure!(!failed, "ptrace: {}", std::io::Error::last_os_error());
    Ok(())
}

fn wait(pid: i32) -> Result<i32> {
    let mut status = 0;
    // SAFETY: the status outlives the call.
    let got = unsafe { libc::waitpid(pid, &raw mut status, 0) };
    ensure!(got == pid, "waitpid: {}", std::io::Error::last_os_error());
    Ok(status)
}

/// Stops a process as its tracer, and continues it with `signal` in place of the stop.
pub(crate) fn inject(pid: i32, signal: i32) -> Result<()> {
    trace(libc::PTRACE_ATTACH, pid, 0)?;
    let stopped = wait(pid)?;
    ensure!(libc::WIFSTOPPED(stopped), "it did not stop: {stopped:x}");
    trace(libc::PTRACE_CONT, pid, signal)?;
    let ended = wait(pid)?;
    ensure!(libc::WIFSIGNALED(ended), "it did not end: {ended:x}");
    Ok(())
}

/// Traces a process so that it ends with its tracer, and then ends.
pub(crate) fn end_with_me(pid: i32) -> Result<()> {
    trace(libc::PTRACE_SEIZE, pid, libc::PTRACE_O_EXITKILL)?;
    std::process::exit(0)
}
